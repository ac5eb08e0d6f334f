network "lan" { cidr = "198.18.0.0/24" }

image "six" { kernel = "linux-image-6.12-cloud-amd64" }

image "unused" { kernel = "linux-image-cloud-amd64/bookworm-backports" }

image "none" {}

image "number" { kernel = "6.12" }

image "mixed" {
  kernel  = "linux-image-6.12-cloud-amd64"
  modules = "./modules"
  initrd  = "./initrd.cpio"
}

image "mine" {
  kernel = "./bzImage"
  count  = 2
}

client "c" {
  image = "six"
  nic { network = network.lan }
}

client "d" {
  image = backend.ns
  nic { network = network.lan }
}

client "e" {
  image = image.sixx
  nic { network = network.lan }
}

client "f" {
  image = image.number
  nic { network = network.lan }
}

client "g" {
  image      = image.mixed
  depends_on = [image.six]
  nic { network = network.lan }
}

director "lb" {
  nic { network = network.lan }
}

director "new" {
  image = image.six
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

service "old" {
  director  = director.lb
  vip       = "198.18.0.101"
  scheduler = "twos"
  forward   = "direct"
  real_server { backends = backend.ns }
}

service "new" {
  director  = director.new
  vip       = "198.18.0.102"
  scheduler = "twos"
  forward   = "direct"
  real_server { backends = backend.ns }
}

experiment "x" {
  service = service.old
  clients = client.c
  factor "scheduler" { values = ["rr", "twos"] }
  load "dnsperf" {}
}

moved {
  from = image.old
  to   = image.six
}

image "both" {
  disk   = "mine.qcow2"
  kernel = "./bzImage"
}

image "void" { disk = "" }

image "disk" { disk = "mine.qcow2" }

client "h" {
  image = image.disk
  boot  = "restore"
  nic { network = network.lan }
}
