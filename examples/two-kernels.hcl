# Two kernels in one study, one verdict: does the new one schedule otherwise?

lab "two-kernels" {
  description = "the same sources on both kernels, and a check that they are decided on alike"
}

variable "old" {
  type        = string
  default     = "linux-image-cloud-amd64"
  description = "Debian package of the kernel to compare with, or the path of one of your own"
}

variable "new" {
  type        = string
  default     = "linux-image-6.12-cloud-amd64"
  description = "Debian package of the kernel that is judged, or the path of one of your own"
}

variable "schedulers" {
  type    = list(string)
  default = ["rr", "wrr", "wlc", "sh", "mh", "sed"]
}

image "old" { kernel = var.old }

image "new" { kernel = var.new }

network "lan" { cidr = "198.18.0.0/24" }

client "c" {
  addresses = 8
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
    backends = [backend.ns[1], backend.ns[2]]
    tunnel   = tunnel.lb-ns
  }
}

experiment "kernels" {
  service    = service.dns
  clients    = client.c
  iterations = 2
  seed       = 2026
  factor "kernel" { values = [image.old, image.new] } # the director boots another one for each run
  factor "scheduler" { values = var.schedulers }
  load "lvslab" {
    queries = 400 # ten for each port: what a backend answers is decided by its ports alone
    sockets = 5   # of each of the 8 addresses
    window  = 1   # one after the other: port after port, and no queue overflows
  }
}

check "alike" {
  assert {
    condition = alltrue([for s in var.schedulers :
      experiment.kernels.shares["kernel=old,scheduler=${s}"] == experiment.kernels.shares["kernel=new,scheduler=${s}"] &&
      experiment.kernels.decisions["kernel=old,scheduler=${s}"] == experiment.kernels.decisions["kernel=new,scheduler=${s}"]
    ])
    error_message = "The kernels decide otherwise: ${jsonencode(experiment.kernels.shares)}"
  }
}

check "nothing_lost" {
  assert {
    condition     = experiment.kernels.unanswered == 0
    error_message = "Queries without an answer: ${experiment.kernels.unanswered}"
  }
}
