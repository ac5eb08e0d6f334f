lab "bad" {}

network "lan" { cidr = "198.18.0.7/24" }

client "c" {
  nic { network = network.lan }
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
  records = [for i in range(20) : { name = "host${i}", type = "A", values = ["192.0.2.${i}"] }]
}

tunnel "t" {
  from = director.lb
  to   = backend.ns
}

service "dns" {
  director  = director.lb
  vip       = "198.18.0.101"
  scheduler = "rr"
  real_server {
    backends = backend.ns
    tunnel   = tunnel.t
  }
}

experiment "e" {
  service = service.dns
  clients = client.c
  load "dnsperf" {}
}
