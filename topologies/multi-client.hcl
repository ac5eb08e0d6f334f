# sh and mh hash the address of the client: one client is one choice. Three machines
# ask side by side here, and one machine asks from twelve addresses.
#
# Advice that stays: one-client is half of the study; closed-loop and few-blocks:
# counts are compared here, and no times.

lab "multi-client" {
  description = "Three clients side by side, and one machine with the addresses of twelve"
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
  count = 3

  nic { network = network.lan }
}

client "many" {
  addresses = 12

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
  vip       = "198.18.0.101"
  scheduler = "sh"

  real_server {
    backends = backend.ns
    tunnel   = tunnel.lb-ns
  }
}

experiment "machines" {
  service    = service.dns
  clients    = client.c
  iterations = var.iterations
  seed       = 1

  factor "scheduler" {
    values = ["rr", "sh"]
  }

  factor "clients" {
    values = [1, 3]
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

experiment "addresses" {
  service    = service.dns
  clients    = client.many
  iterations = var.iterations
  seed       = 1

  factor "scheduler" {
    values = ["sh", "mh"]
  }

  load "dnsperf" {
    queries = var.queries
    sockets = 1 # for each address
  }

  controls {
    aa     = true
    direct = true
    rotate = true
  }
}

check "nothing_lost" {
  assert {
    condition     = experiment.machines.unanswered + experiment.addresses.unanswered == 0
    error_message = "Queries went unanswered: look at outcome_flags in runs.csv."
  }
}

check "addresses_are_spread" {
  assert {
    condition     = length([for s in values(experiment.addresses.shares["scheduler=sh"]) : s if s > 0]) == 3
    error_message = "sh should use all three backends for twelve addresses."
  }
}

output "shares" {
  description = "Share of each backend in the accepted answers, by treatment."
  value       = { machines = experiment.machines.shares, addresses = experiment.addresses.shares }
}
