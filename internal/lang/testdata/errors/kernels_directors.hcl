network "lan" { cidr = "198.18.0.0/24" }

image "old" { kernel = "linux-image-cloud-amd64" }

image "new" { kernel = "linux-image-6.12-cloud-amd64" }

client "c" {
  nic { network = network.lan }
}

director "lb" {
  nic { network = network.lan }
}

director "other" {
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

service "dns" {
  director = director.lb
  vip      = "198.18.0.101"
  forward  = "direct"
  real_server { backends = backend.ns }
}

experiment "whose" {
  service = service.dns
  clients = client.c
  factor "kernel" { values = [image.old, image.new] }
  load "dnsperf" {}
}
