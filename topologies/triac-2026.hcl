# The study of the paper as it was published, and the two short ones that tell its
# explanations apart. "Performance Evaluation of Active and Passive Scheduling
# Algorithms in IP Tunneling Load Balancing for DNS Traffic" (TRIAC 2026) compared
# ten schedulers by 1,000 queries in five iterations, with dnsperf as it comes:
# one socket, so one source port.
#
# lvslab reproduce triac-2026 runs it and prints the table beside the published
# figures.

lab "triac-2026" {
  description = "The published protocol: ten schedulers, one client, LVS-TUN, DNS over UDP"
  teardown    = "on-success"
}

variable "iterations" {
  description = "Blocks of the published study."
  type        = number
  default     = 5

  validation {
    condition     = var.iterations > 0
    error_message = "At least one iteration is needed."
  }
}

variable "queries" {
  description = "DNS queries of each run of the published study."
  type        = number
  default     = 1000
}

network "lan" {
  cidr = "198.18.0.0/24"
}

client "c" {
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
  serves = [zone.lab]

  nic { network = network.lan }
}

zone "lab" {
  name    = "lab.test"
  records = [for i in range(100) : { name = "host${i}", type = "A", values = ["192.0.2.${i}"] }]
}

tunnel "lb-ns" {
  from = director.lb
  to   = backend.ns
}

service "dns" {
  director  = director.lb
  vip       = "198.18.0.101" # dh picks ns[2] for it, not the head of the list
  scheduler = "rr"

  real_server {
    backends = backend.ns
    tunnel   = tunnel.lb-ns
  }
}

service "dns-tcp" {
  director  = director.lb
  vip       = "198.18.0.101"
  protocol  = "tcp"
  scheduler = "rr"

  real_server {
    backends = backend.ns
    tunnel   = tunnel.lb-ns
  }
}

# What was published: no controls, one socket.
experiment "published" {
  service    = service.dns
  clients    = client.c
  iterations = var.iterations
  seed       = 2026

  factor "scheduler" {
    values = ["rr", "wrr", "lc", "wlc", "lblc", "lblcr", "dh", "sh", "sed", "nq"]
  }

  load "dnsperf" {
    queries = var.queries
  }
}

# The paper's explanation of sed and nq: one source port. Here are twenty.
experiment "ports" {
  service    = service.dns
  clients    = client.c
  iterations = 3
  seed       = 2026

  factor "scheduler" {
    values = ["rr", "sed", "nq"]
  }

  load "dnsperf" {
    queries = 300
    sockets = 20
  }
}

# The kernel's: entries of UDP never count as active. Those of TCP do, while
# their connections are open.
experiment "tcp" {
  service    = service.dns-tcp
  clients    = client.c
  iterations = 3
  seed       = 2026

  factor "scheduler" {
    values = ["rr", "sed", "nq"]
  }

  load "lvslab" {
    queries = 300
    sockets = 30
  }
}

check "nothing_lost" {
  assert {
    condition     = experiment.published.unanswered + experiment.ports.unanswered + experiment.tcp.unanswered == 0
    error_message = "Queries went unanswered: look at outcome_flags in runs.csv."
  }
}

output "shares" {
  description = "Share of each backend in the accepted answers of the published study, by treatment."
  value       = experiment.published.shares
}
