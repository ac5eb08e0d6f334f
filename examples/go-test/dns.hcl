# One client, one director, three resolvers behind it by direct routing: what
# dns_test.go boots, asks and measures. IPVS runs in the director, whose kernel is
# a variable: a Debian package, the path of a built tree, or that of a bzImage, with
# a second variable for where its modules are.

lab "go-test" {
  description = "A lab of a Go test"
}

variable "kernel" {
  type        = string
  default     = "linux-image-cloud-amd64"
  description = "Debian package of the director's kernel, or the path of one of your own"
}

variable "modules" {
  type        = string
  default     = ""
  description = "where the modules of your own kernel are installed, when it is no tree"
}

image "director" {
  kernel  = var.kernel
  modules = var.modules
}

network "lan" {
  cidr = "198.18.0.0/24"
}

client "c" {
  nic { network = network.lan }
}

director "lb" {
  image = image.director
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

service "dns" {
  director  = director.lb
  vip       = "198.18.0.101"
  scheduler = "rr"
  forward   = "direct"

  real_server {
    backends = [backend.ns[0]]
    weight   = 2
  }

  real_server {
    backends = [backend.ns[1], backend.ns[2]]
  }
}

experiment "shares" {
  service    = service.dns
  clients    = client.c
  iterations = 1
  seed       = 1

  factor "scheduler" {
    values = ["rr", "wrr"]
  }

  # A source port for each query of the first twelve, then the same ports again: UDP
  # from one port is one connection, so the scheduler decides twelve times.
  load "dnsperf" {
    queries = 120
    sockets = 12
  }
}

check "nothing_lost" {
  assert {
    condition     = experiment.shares.unanswered == 0
    error_message = "Queries went unanswered: look at outcome_flags in runs.csv."
  }
}
