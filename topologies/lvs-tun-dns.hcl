# The study of the paper: which of ten IPVS schedulers answers a batch of DNS
# queries fastest through LVS-TUN. One client, one director, three backends on
# one isolated network; 3 blocks of 10 treatments in random order, 1,000
# queries each. Beside them, controls: rr once more under another name, and each
# backend asked without LVS; in each block another backend is the list head, so
# that 3 blocks are one whole turn. The paper's own 5 are in builtin:triac-2026.
#
# It finds that with dnsperf's default of one socket every scheduler sends all
# queries to one backend, and that "dh" picks another one than the rest.
#
# Advice that stays: one-port, active-udp, one-vip, one-client, closed-loop and
# few-blocks are the paper's design, and what its table cannot say: it is run to show
# that.

lab "lvs-tun-dns" {
  description = "Ten schedulers, one client, LVS-TUN, DNS over UDP"
  teardown    = "on-success"
}

variable "iterations" {
  description = "Blocks: each holds every treatment once, in random order."
  type        = number
  default     = 3 # each backend is the list head once; more blocks in threes

  validation {
    condition     = var.iterations > 0
    error_message = "At least one iteration is needed."
  }
}

variable "queries" {
  description = "DNS queries of the client in each run."
  type        = number
  default     = 1000
}

network "lan" {
  cidr = "198.18.0.0/24"
}

client "c" {
  count = 1

  nic { network = network.lan }
}

director "lb" {
  nic {
    network = network.lan
    address = "198.18.0.20"
  }
}

backend "ns" {
  count  = 3
  memory = "256MiB"
  serves = [zone.lab]

  nic { network = network.lan }
}

zone "lab" {
  name    = "lab.test"
  records = [for i in range(100) : { name = "host${i}", type = "A", values = ["192.0.2.${i}"] }]
}

# One tunnel for each backend: tunnel.lb-ns["backend.ns[0]"] and so on.
tunnel "lb-ns" {
  from = director.lb
  to   = backend.ns
  type = "ipip"
}

service "dns" {
  director   = director.lb
  vip        = "198.18.0.101" # the kernel's hash of it picks ns[2] for "dh", not the head of the list
  port       = 53
  protocol   = "udp"
  scheduler  = "rr"
  one_packet = false
  timeout    = { udp = "300s" }
  forward    = "tunnel"

  # The order is the kernel's list order; the first is the head, which wins ties.
  real_server {
    backends = backend.ns
    tunnel   = tunnel.lb-ns
    weight   = 1
  }
}

experiment "schedulers" {
  service    = service.dns
  clients    = client.c
  iterations = var.iterations
  seed       = 2026
  capture    = true
  isolation  = "flush"

  factor "scheduler" {
    values = ["rr", "wrr", "lc", "wlc", "lblc", "lblcr", "dh", "sh", "sed", "nq"]
  }

  load "dnsperf" {
    queries = var.queries
    sockets = 1 # dnsperf's default: one source port, so one scheduling decision
  }

  controls {
    aa     = true
    direct = true
    rotate = true
  }
}

check "nothing_lost" {
  assert {
    condition     = experiment.schedulers.unanswered == 0
    error_message = "Queries without an answer: ${experiment.schedulers.unanswered}"
  }
}

output "shares" {
  description = "Share of each backend in the accepted answers, by treatment."
  value       = experiment.schedulers.shares
}

output "decisions" {
  description = "Choices that the scheduler made, by treatment."
  value       = experiment.schedulers.decisions
}
