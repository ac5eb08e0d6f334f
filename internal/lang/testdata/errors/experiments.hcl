variable "weights" { default = [1, 2] }

network "lan" { cidr = "198.18.0.0/24" }
network "far" { cidr = "198.18.1.0/24" }

client "c" {
  nic { network = network.lan }
}
client "far" {
  nic { network = network.far }
}

director "lb" {
  nic { network = network.lan }
}

backend "ns" {
  count  = 3
  serves = [zone.lab]
  nic { network = network.lan }
}

zone "lab" {
  name    = "lab.test"
  records = [{ name = "a", type = "A", values = ["192.0.2.1"] }]
}

service "dns" {
  director = director.lb
  vip      = "198.18.0.101"
  forward  = "direct"
  real_server { backends = backend.ns }
}

service "bare" {
  director = director.lb
  vip      = "198.18.0.102"
}

experiment "bare" {
  service = service.bare
  clients = client.c
  load "dnsperf" {}
}

experiment "reach" {
  service = service.dns
  clients = [client.c, client.c, client.far]
  load "dnsperf" { protocol = "tcp" }
}

experiment "fit" {
  service = service.dns
  clients = client.c
  factor "weights" { values = [[1, 1, 1], var.weights] }
  factor "order" { values = ["declared", [2, 1, 0], [0, 1]] }
  factor "clients" { values = [1, 2] }
  factor "vips" { values = [1, 2] }
  load "dnsperf" {}
}

experiment "many" {
  service    = service.dns
  clients    = client.c
  iterations = 10000
  factor "sockets" { values = range(1, 120) }
  load "dnsperf" {}
}

experiment "isolated" {
  service   = service.dns
  clients   = client.c
  isolation = "restored"
  equal_within = 0.5
  start_within = "50"
  load "dnsperf" {}
}
