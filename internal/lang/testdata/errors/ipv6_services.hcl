# What IPv6 asks for of services, tunnels and loads.
network "four" { cidr = "198.18.0.0/24" }
network "six" { cidr = "fd00:18::/64" }

client "c" {
  nic { network = network.six }
}

director "lb" {
  nic { network = network.six }
  nic { network = network.four }
}

backend "old" {
  serves = [zone.lab]
  nic { network = network.four }
}

backend "ns" {
  serves = [zone.lab]
  nic { network = network.six }
}

backend "both" {
  serves = [zone.lab]
  nic { network = network.six }
  nic { network = network.four }
}

zone "lab" {
  name    = "lab.test"
  records = [{ name = "a", type = "A", values = ["192.0.2.1"] }]
}

tunnel "up" {
  from = director.lb
  to   = backend.ns
  type = "gre"
}

tunnel "udp" {
  from = director.lb
  to   = backend.both
  type = "gue"
}

service "both" {
  director = director.lb
  vips     = ["fd00:18::101", "198.18.0.101"]
  forward  = "direct"
  real_server { backends = backend.ns }
}

service "direct" {
  director = director.lb
  vip      = "fd00:18::102"
  forward  = "direct"
  real_server { backends = [backend.ns, backend.old] }
}

service "inside" {
  director = director.lb
  vip      = "fd00:18::103"
  real_server {
    backends = backend.both
    tunnel   = tunnel.udp
  }
}

experiment "own" {
  service = service.direct
  clients = client.c
  load "lvslab" {}
}

population "many" {
  service   = service.direct
  clients   = 10
  rate      = 10
  duration  = "10s"
}
