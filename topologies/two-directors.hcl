# Two directors, each with an address of its own, in front of the same three backends.
# Neither sees the other's entries: what one has scheduled does not count for the
# other's choice, so that lc spreads for each of them alone.
#
# Advice that stays: closed-loop and few-blocks: counts are compared here, and no
# times.

lab "two-directors" {
  description = "Two directors share three backends"
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

director "left" {
  nic { network = network.lan }
}

director "right" {
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

tunnel "left-ns" {
  from = director.left
  to   = backend.ns
  type = "ipip"
}

tunnel "right-ns" {
  from = director.right
  to   = backend.ns
  type = "ipip"
}

service "left" {
  director  = director.left
  vip       = "198.18.0.101"
  scheduler = "rr"

  real_server {
    backends = backend.ns
    tunnel   = tunnel.left-ns
  }
}

service "right" {
  director  = director.right
  vip       = "198.18.0.102"
  scheduler = "rr"

  real_server {
    backends = backend.ns
    tunnel   = tunnel.right-ns
  }
}

experiment "left" {
  service    = service.left
  clients    = client.c
  iterations = var.iterations
  seed       = 1

  factor "scheduler" {
    values = ["rr", "lc"]
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

experiment "right" {
  service    = service.right
  clients    = client.c
  iterations = var.iterations
  seed       = 1

  factor "scheduler" {
    values = ["rr", "lc"]
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
    condition     = experiment.left.unanswered + experiment.right.unanswered == 0
    error_message = "Queries went unanswered: look at outcome_flags in runs.csv."
  }
}

check "each_by_itself" {
  assert {
    condition     = alltrue([for b in backend.ns : abs(experiment.left.shares["scheduler=lc"][b.id] - 1 / 3) + abs(experiment.right.shares["scheduler=lc"][b.id] - 1 / 3) < 0.001])
    error_message = "lc should give each backend a third of the source ports of each director."
  }
}

output "shares" {
  description = "Share of each backend in the accepted answers, by treatment."
  value       = { left = experiment.left.shares, right = experiment.right.shares }
}
