# Backends elsewhere. LVS-TUN needs no common network: the director sends its tunnels
# through two routers, and the backends answer the client through them, past the
# director. Routes follow from which machine stands on which network.
#
#   client ── outside ── director
#                │
#             router.edge ── core ── router.far ── inside ── backends
#
# Answers come with the MAC of a router, so the queries ask the servers who they are
# (NSID).
#
# Advice that stays: closed-loop and few-blocks: counts are compared here, and no
# times.

lab "routed-tun" {
  description = "LVS-TUN through two routers, answers past the director"
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

network "outside" {
  cidr = "198.18.0.0/24"
}

network "core" {
  cidr = "198.18.1.0/24"
}

network "inside" {
  cidr = "198.18.2.0/24"
}

client "c" {
  nic { network = network.outside }
}

director "lb" {
  nic { network = network.outside }
}

router "edge" {
  nic { network = network.outside }

  nic { network = network.core }
}

router "far" {
  nic { network = network.core }

  nic { network = network.inside }
}

backend "ns" {
  count  = 3
  serves = [zone.lab]

  nic { network = network.inside }
}

zone "lab" {
  name    = "lab.test"
  records = [for i in range(20) : { name = "host${i}", type = "A", values = ["192.0.2.${i}"] }]
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
    backends = backend.ns
    tunnel   = tunnel.lb-ns
  }
}

experiment "routed" {
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
    condition     = experiment.routed.unanswered == 0
    error_message = "Queries went unanswered: look at outcome_flags in runs.csv."
  }
}

check "even" {
  assert {
    condition     = alltrue([for b in backend.ns : abs(experiment.routed.shares["scheduler=rr"][b.id] - 1 / 3) < 0.001])
    error_message = "rr should give each backend a third of the source ports."
  }
}

output "shares" {
  description = "Share of each backend in the accepted answers, by treatment."
  value       = experiment.routed.shares
}
