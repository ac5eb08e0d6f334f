locals {
  head  = backend.ns[0].address
  total = experiment.x.runs
}

network "lan" { cidr = "198.18.0.0/24" }

network "by_machines" {
  count = length(backend.ns[*].address)
  cidr  = "198.18.1.0/24"
}

network "by_network" {
  count = network.lan.cidr == "198.18.0.0/24" ? 1 : 0
  cidr  = "198.18.2.0/24"
}

client "c" {
  count = local.head == "198.18.0.30" ? 1 : 2
  nic { network = network.lan }
}

director "lb" {
  nic {
    network = network.lan
    address = backend.ns[0].address
  }
}

director "lb2" {
  nic {
    network = network.lan
    address = [for b in backend.ns : b.address][0]
  }
}

backend "ns" {
  count = 3
  nic { network = network.lan }
}

service "dns" {
  director  = director.lb
  vip       = director.lb2.address
  scheduler = experiment.x.runs > 0 ? "rr" : "wrr"
}

experiment "x" {
  service = service.dns
  clients = client.c
  load "dnsperf" {}
}
