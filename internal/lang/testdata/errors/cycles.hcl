locals {
  a = local.b + 1
  b = local.c + 1
  c = local.a + 1
}

network "lan" { cidr = cidrsubnet(network.wan.cidr, 8, 0) }
network "wan" { cidr = cidrsubnet(network.lan.cidr, 8, 0) }

client "c" {
  count = length(backend.ns)
  nic { network = network.third }
}

network "third" { cidr = "198.18.0.0/24" }

backend "ns" {
  count = length(client.c)
  nic { network = network.third }
}

director "lb" {
  nic { network = network.third }
}

service "one" {
  director  = director.lb
  vip       = "198.18.0.101"
  scheduler = service.two.scheduler
}

service "two" {
  director  = director.lb
  vip       = "198.18.0.102"
  scheduler = service.three.scheduler
}

service "three" {
  director  = director.lb
  vip       = "198.18.0.103"
  scheduler = service.one.scheduler
}
