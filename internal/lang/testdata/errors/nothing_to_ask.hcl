network "lan" { cidr = "198.18.0.0/24" }
network "other" { cidr = "198.18.1.0/24" }

client "c" {
  nic {
    network = network.lan
  }
}

director "lb" {
  nic {
    network = network.lan
  }
}

backend "a" {
  serves = [zone.lab]
  nic {
    network = network.other
  }
}

zone "lab" {
  name    = "lab.test"
  records = []
}

tunnel "t" {
  from = director.lb
  to   = backend.a
}

service "dns" {
  director = director.lb
  vip      = "198.18.0.101"
  real_server {
    backends = backend.a
    tunnel   = tunnel.t
  }
}

service "direct" {
  director = director.lb
  vip      = "198.18.0.102"
  forward  = "direct"
  real_server { backends = backend.a }
}

experiment "x" {
  service = service.dns
  clients = client.c
  load "dnsperf" {}
}

experiment "nobody" {
  service = service.dns
  clients = []
  load "dnsperf" {}
}
