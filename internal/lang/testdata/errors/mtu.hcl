# Networks on the way of a tunnel that have no room for a query in it.
network "outside" { cidr = "198.18.0.0/24" }
network "narrow" {
  cidr = "198.18.1.0/24"
  mtu  = 96
}
network "inside" {
  cidr = "198.18.2.0/24"
  mtu  = 100
}

client "c" {
  nic { network = network.outside }
}

router "edge" {
  nic { network = network.outside }
  nic { network = network.narrow }
}

router "far" {
  nic { network = network.narrow }
  nic { network = network.inside }
}

director "lb" {
  nic { network = network.outside }
}

backend "ns" {
  count  = 3
  serves = [zone.lab]
  nic { network = network.inside }
}

zone "lab" {
  name    = "lab.test"
  records = [{ name = "host", type = "A", values = ["192.0.2.1"] }, { name = "@", type = "MX", values = ["10 host.lab.test."] }]
}

tunnel "up" {
  count    = 3
  from     = director.lb
  to       = backend.ns[count.index]
  type     = ["ipip", "gre", "gue"][count.index]
  checksum = ["none", "full", "remote"][count.index]
}

service "dns" {
  director = director.lb
  vip      = "198.18.0.101"
  real_server {
    backends = backend.ns
    tunnel   = tunnel.up
  }
}
