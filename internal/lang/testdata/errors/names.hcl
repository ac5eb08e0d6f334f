schedular = "rr"

netwrok "lan" {
  cidr = "198.18.0.0/24"
}

network "wan" {
  cdir = "198.18.1.0/24"
}

resource "libvirt_domain" "x" {}


data "mine" {}

real_server {
  backends = backend.ns
}

client {
  nic { network = network.wan }
}

client "c" "d" {
  nic = { network = network.wan }
}

director "0lb" {
  nic { network = network.wan }
}

director "lb" {
  nic { network = network.wan }
  nick { network = network.wan }
}

backend "ns" {
  memory = "256MiB"
  memroy = "256MiB"
}

service "dns" {
  director = director.lb
  vip      = "198.18.1.101"
  vips     = ["198.18.1.102"]
  timeout { udp = "300s" }
  dynamic "real_server" {}
}

service "dns" {
  director = director.lb
  vip      = "198.18.1.103"
}

experiment "x" {
  service = service.dns
  load "dnsperf" {}
  load "dnsperf" {}
  controls { aa = true }
}

check "empty" {}

provider "libvrit" {}

locals "x" {
  a = 1
}

tunnel "t" {
  count    = 1
  for_each = toset([])
  from     = director.lb
  to       = backend.ns
}
