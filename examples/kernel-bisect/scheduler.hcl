# What a kernel must do to be good: rr gives each backend a third of the ports, and
# wrr gives them 3 : 2 : 1. step.sh builds the kernel and names its tree.

lab "bisect" {
  description = "does this kernel schedule as it should?"
}

variable "kernel" {
  type        = string
  default     = "./linux"
  description = "a kernel's tree in which bzImage and modules are built"
}

image "tried" { kernel = var.kernel }

network "lan" { cidr = "198.18.0.0/24" }

client "c" {
  nic { network = network.lan }
}

director "lb" {
  image = image.tried
  nic { network = network.lan }
}

backend "ns" {
  count  = 3
  serves = [zone.lab]
  nic { network = network.lan }
}

zone "lab" {
  name    = "lab.test"
  records = [for i in range(100) : { name = "host${i}", type = "A", values = ["192.0.2.${i}"] }]
}

tunnel "lb-ns" {
  from = director.lb
  to   = backend.ns
}

service "dns" {
  director  = director.lb
  vip       = "198.18.0.101"
  scheduler = "rr"
  real_server {
    backends = [backend.ns[0]]
    tunnel   = tunnel.lb-ns
    weight   = 3
  }
  real_server {
    backends = [backend.ns[1]]
    tunnel   = tunnel.lb-ns
    weight   = 2
  }
  real_server {
    backends = [backend.ns[2]]
    tunnel   = tunnel.lb-ns
    weight   = 1
  }
}

experiment "shares" {
  service    = service.dns
  clients    = client.c
  iterations = 1
  factor "scheduler" { values = ["rr", "wrr"] }
  load "lvslab" {
    queries = 300
    sockets = 30
  }
}

locals {
  wanted = { rr = [1 / 3, 1 / 3, 1 / 3], wrr = [1 / 2, 1 / 3, 1 / 6] }
}

check "shares" {
  assert {
    condition = alltrue([for s, parts in local.wanted : alltrue([for i, part in parts :
    abs(experiment.shares.shares["scheduler=${s}"]["backend.ns[${i}]"] - part) < 0.02])])
    error_message = "Other shares than by the weights: ${jsonencode(experiment.shares.shares)}"
  }
}

check "nothing_lost" {
  assert {
    condition     = experiment.shares.unanswered == 0
    error_message = "Queries without an answer: ${experiment.shares.unanswered}"
  }
}
