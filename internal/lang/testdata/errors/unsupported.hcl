network "lan" { cidr = "198.18.0.0/24" }

image "mine" { kernel = "./bzImage" }

client "c" {
  boot  = "restore"
  image = image.mine
  nic { network = network.lan }
}

director "lb" {
  nic { network = network.lan }
}

backend "ns" {
  serves = [zone.lab]
  nic { network = network.lan }
}

zone "lab" {
  name    = "lab.test"
  records = [{ name = "a", type = "A", values = ["192.0.2.1"] }]
}

tunnel "t" {
  from = director.lb
  to   = backend.ns
}

service "dns" {
  director = director.lb
  vip      = "198.18.0.101"
  real_server {
    backends = backend.ns
    tunnel   = tunnel.t
  }
}

experiment "x" {
  service = service.dns
  clients = client.c
  load "dnsperf" {}
}
