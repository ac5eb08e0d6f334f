network "lan" { cidr = "198.18.0.0/24" }

image "old" { kernel = "linux-image-cloud-amd64" }

image "new" { kernel = "linux-image-6.12-cloud-amd64" }

client "c" {
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

service "dns" {
  director = director.lb
  vip      = "198.18.0.101"
  forward  = "direct"
  real_server { backends = backend.ns }
}

service "choices" {
  director  = director.lb
  vip       = "198.18.0.102"
  scheduler = "twos"
  forward   = "direct"
  real_server { backends = backend.ns }
}

experiment "alone" {
  service = service.dns
  clients = client.c
  factor "kernel" { values = [image.new] }
  load "dnsperf" {}
}

experiment "flushed" {
  service   = service.dns
  clients   = client.c
  isolation = "flush"
  factor "kernel" { values = [image.old, image.new] }
  factor "scheduler" { values = ["rr", "twos"] }
  load "dnsperf" {}
}

experiment "declared" {
  service = service.choices
  clients = client.c
  factor "kernel" { values = [image.old, image.new] }
  load "dnsperf" {}
}

experiment "twice" {
  service = service.dns
  clients = client.c
  factor "kernel" { values = [image.old, image.old] }
  load "dnsperf" {}
}

experiment "unknown" {
  service = service.dns
  clients = client.c
  factor "kernel" { values = [image.old, image.older] }
  load "dnsperf" {}
}

image "whole" { disk = "mine.qcow2" }

experiment "disk" {
  service = service.dns
  clients = client.c
  factor "kernel" { values = [image.old, image.whole] }
  load "dnsperf" {}
}
