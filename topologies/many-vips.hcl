# dh and lblc look at the address that was asked. With one virtual address that is one
# choice for ever, however many clients and ports there are. With six dh spreads; lblc
# takes the least loaded backend for an address that it has not seen, but each
# virtual address is a service with counts of its own, so that is the list's head.
#
# Advice that stays: one-vip is half of the study; closed-loop and few-blocks: counts
# are compared here, and no times.

lab "many-vips" {
  description = "Hashing by destination with one virtual address and with six"
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
  from = director.lb
  to   = backend.ns
  type = "ipip"
}

service "dns" {
  director  = director.lb
  vips      = [for i in range(6) : cidrhost(network.lan.cidr, 100 + i)]
  scheduler = "dh"

  real_server {
    backends = backend.ns
    tunnel   = tunnel.lb-ns
  }
}

experiment "addresses" {
  service    = service.dns
  clients    = client.c
  iterations = var.iterations
  seed       = 1

  factor "scheduler" {
    values = ["dh", "lblc"]
  }

  factor "vips" {
    values = [1, 6]
  }

  load "dnsperf" {
    queries = var.queries
    sockets = 3 # for each virtual address
  }

  controls {
    aa     = true
    direct = true
    rotate = true
  }
}

check "nothing_lost" {
  assert {
    condition     = experiment.addresses.unanswered == 0
    error_message = "Queries went unanswered: look at outcome_flags in runs.csv."
  }
}

check "six_are_spread" {
  assert {
    condition     = length([for s in values(experiment.addresses.shares["scheduler=dh,vips=6"]) : s if s > 0]) == 3
    error_message = "dh should use all three backends for six addresses."
  }
}

output "decisions" {
  description = "Choices that the scheduler made, by treatment."
  value       = experiment.addresses.decisions
}

output "shares" {
  description = "Share of each backend in the accepted answers, by treatment."
  value       = experiment.addresses.shares
}
