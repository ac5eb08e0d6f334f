# Masquerading (LVS-NAT). The director rewrites the query's destination address and,
# on the way back, the answer's source. So every answer must pass it: it stands on
# both networks, and the backends' default route leads to it. All answers have the
# director's MAC then, so the queries ask the servers who they are (NSID).
#
# Advice that stays: closed-loop and few-blocks: counts are compared here, and no
# times.

lab "lvs-nat" {
  description = "Masquerading: queries and answers pass the director"
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

network "inside" {
  cidr = "198.18.1.0/24"
}

client "c" {
  nic { network = network.outside }
}

director "lb" {
  nic { network = network.outside }

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

service "dns" {
  director  = director.lb
  vip       = "198.18.0.101"
  scheduler = "rr"
  forward   = "masquerade"

  real_server {
    backends = backend.ns
  }
}

experiment "nat" {
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
    condition     = experiment.nat.unanswered == 0
    error_message = "Queries went unanswered: look at outcome_flags in runs.csv."
  }
}

check "even" {
  assert {
    condition     = alltrue([for b in backend.ns : abs(experiment.nat.shares["scheduler=rr"][b.id] - 1 / 3) < 0.001])
    error_message = "rr should give each backend a third of the source ports."
  }
}

output "shares" {
  description = "Share of each backend in the accepted answers, by treatment."
  value       = experiment.nat.shares
}
