# What a weight does over UDP. wrr and wlc share source ports by weight. sed and nq
# look at active connections, of which UDP has none: sed gives everything to the
# largest weight, nq to the head of the list, whatever its weight.
#
# Advice that stays: active-udp is what it shows; closed-loop and few-blocks: counts
# are compared here, and no times.

lab "weighted" {
  description = "Weights 3:2:1, and which schedulers read them"
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
  vip       = "198.18.0.101"
  scheduler = "wrr"

  real_server {
    backends = backend.ns
    tunnel   = tunnel.lb-ns
  }
}

experiment "weights" {
  service    = service.dns
  clients    = client.c
  iterations = var.iterations
  seed       = 1

  factor "scheduler" {
    values = ["wrr", "wlc", "sed", "nq"]
  }

  factor "weights" {
    values = [[3, 2, 1]]
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
    condition     = experiment.weights.unanswered == 0
    error_message = "Queries went unanswered: look at outcome_flags in runs.csv."
  }
}

check "by_weight" {
  assert {
    condition     = alltrue([for i, b in backend.ns : abs(experiment.weights.shares["scheduler=wrr,weights=3:2:1"][b.id] - (3 - i) / 6) < 0.001])
    error_message = "wrr should share twelve source ports as 6, 4 and 2."
  }
}

check "sed_takes_the_largest" {
  assert {
    condition     = experiment.weights.shares["scheduler=sed,weights=3:2:1"][backend.ns[0].id] == 1
    error_message = "sed should send all UDP to the backend of weight 3."
  }
}

output "shares" {
  description = "Share of each backend in the accepted answers, by treatment."
  value       = experiment.weights.shares
}
