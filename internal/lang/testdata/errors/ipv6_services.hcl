# What IPv6 asks for, and what only a tunnel carries across the families.
network "four" { cidr = "198.18.0.0/24" }
network "six" {
  cidr = "fd00:18::/64"
  mtu  = 1200
}

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

zone "lab" {
  name    = "lab.test"
  records = [{ name = "a", type = "A", values = ["192.0.2.1"] }]
}

tunnel "up" {
  from = director.lb
  to   = backend.ns
  type = "gre"
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

experiment "own" {
  service = service.direct
  clients = client.c
  load "lvslab" {}
}
