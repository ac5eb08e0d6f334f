# The same tunnel as in lvs-tun-dns with another outer header: GRE, IP protocol 47 with a header of 4 bytes, 8 with its checksum.
# What is scheduled, and where the answers go, is the same.
#
# Advice that stays: closed-loop and few-blocks: counts are compared here, and no
# times.

lab "tun-gre" {
  description = "LVS-TUN by GRE instead of IPIP"
  teardown    = "on-success"
}

variable "iterations" {
  description = "Blocks; with three each backend is the head of the list once."
  type        = number
  default     = 3
}

variable "queries" {
  description = "DNS queries of each client in each run."
  type        = number
  default     = 120
}

variable "checksum" {
  description = "Of the outer header: 'none' or 'full'."
  type        = string
  default     = "none"
}

network "lan" {
  cidr = "198.18.0.0/24"
}

client "c" {
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
  records = [for i in range(20) : { name = "host${i}", type = "A", values = ["192.0.2.${i}"] }]
}

tunnel "lb-ns" {
  from     = director.lb
  to       = backend.ns
  type     = "gre"
  checksum = var.checksum
}

service "dns" {
  director  = director.lb
  vip       = "198.18.0.101"
  scheduler = "rr"

  real_server {
    backends = backend.ns
    tunnel   = tunnel.lb-ns
  }
}

experiment "gre" {
  service    = service.dns
  clients    = client.c
  iterations = var.iterations
  seed       = 1

  factor "scheduler" {
    values = ["rr", "wlc"]
  }

  load "dnsperf" {
    queries = var.queries
    sockets = 12
  }

  controls {
    aa     = true
    direct = true
    rotate = true
  }
}

check "nothing_lost" {
  assert {
    condition     = experiment.gre.unanswered == 0
    error_message = "Queries went unanswered: look at outcome_flags in runs.csv."
  }
}

check "even" {
  assert {
    condition     = alltrue([for b in backend.ns : abs(experiment.gre.shares["scheduler=rr"][b.id] - 1 / 3) < 0.001])
    error_message = "rr should give each backend a third of the source ports."
  }
}

output "shares" {
  description = "Share of each backend in the accepted answers, by treatment."
  value       = experiment.gre.shares
}
