# Persistence: the first packet of a client chooses a backend, and all its ports follow
# (a template in the connection table, client port 0). Three clients are three choices
# then, and thirty-six without it.
#
# Advice that stays: one-persistent is half of the study; closed-loop and few-blocks:
# counts are compared here, and no times.

lab "persistence" {
  description = "A client keeps its backend, whatever port it asks from"
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
  scheduler = "rr"

  real_server {
    backends = backend.ns
    tunnel   = tunnel.lb-ns
  }
}

service "sticky" {
  director  = director.lb
  vip       = "198.18.0.102"
  scheduler = "rr"

  persistence {
    timeout = "60s"
  }

  real_server {
    backends = backend.ns
    tunnel   = tunnel.lb-ns
  }
}

experiment "ports" {
  service    = service.dns
  clients    = client.c
  iterations = var.iterations
  seed       = 1

  factor "scheduler" {
    values = ["rr"]
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

experiment "sticky" {
  service    = service.sticky
  clients    = client.c
  iterations = var.iterations
  seed       = 1

  factor "scheduler" {
    values = ["rr"]
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

check "nothing_lost" {
  assert {
    condition     = experiment.ports.unanswered + experiment.sticky.unanswered == 0
    error_message = "Queries went unanswered: look at outcome_flags in runs.csv."
  }
}

check "ports_are_spread" {
  assert {
    condition     = alltrue([for b in backend.ns : abs(experiment.ports.shares["scheduler=rr,clients=1"][b.id] - 1 / 3) < 0.001])
    error_message = "Without persistence rr gives each backend a third of the ports of a client."
  }
}

check "clients_are_kept" {
  assert {
    condition     = alltrue([for b in backend.ns : abs(experiment.sticky.shares["scheduler=rr,clients=3"][b.id] - 1 / 3) < 0.001])
    error_message = "With persistence rr gives each backend one of three clients."
  }
}

output "shares" {
  description = "Share of each backend in the accepted answers, by treatment."
  value       = { ports = experiment.ports.shares, sticky = experiment.sticky.shares }
}
