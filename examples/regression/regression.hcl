# One topology, any kernel: regression.sh runs it with two and compares the results.

lab "regression" {
  description = "the same study on the kernel that var.kernel names"
}

variable "kernel" {
  type        = string
  default     = "linux-image-cloud-amd64"
  description = "Debian package of the kernel, or the path of one of your own"
}

variable "modules" {
  type        = string
  default     = ""
  description = "where the modules of your own kernel are installed"
}

image "guest" {
  kernel  = var.kernel
  modules = var.modules
}

network "lan" { cidr = "198.18.0.0/24" }

client "c" {
  image     = image.guest
  addresses = 8
  nic { network = network.lan }
}

director "lb" {
  image = image.guest
  nic { network = network.lan }
}

backend "ns" {
  count  = 3
  image  = image.guest
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

experiment "schedulers" {
  service    = service.dns
  clients    = client.c
  iterations = 3
  seed       = 2026
  factor "scheduler" { values = ["rr", "wrr", "wlc", "sh", "mh", "sed"] }
  load "lvslab" {
    queries = 400 # ten for each port: what a backend answers is decided by its ports alone
    sockets = 5   # of each of the 8 addresses
    window  = 1   # one after the other: port after port, and no queue overflows
  }
}

check "nothing_lost" {
  assert {
    condition     = experiment.schedulers.unanswered == 0
    error_message = "Queries without an answer: ${experiment.schedulers.unanswered}"
  }
}
