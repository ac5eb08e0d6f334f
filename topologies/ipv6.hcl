# IPv6 on both sides of the director: by a tunnel of IPv6 in IPv6, and by direct
# routing. Neighbour discovery asks only the card that holds an address, so that a
# backend need not be told to keep silent about the virtual one. dh, sh and mh see an
# address as the exclusive or of its four words.
#
# Advice that stays: closed-loop, since this is about shares and not about times;
# few-blocks, since a block takes a minute under emulation (-var iterations=5 is enough to
# compare times); one-vip, since dh answers for the address that it was given.

lab "ipv6" {
  description = "IPv6 by tunnel and by direct routing"
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
  cidr = "fd00:18::/64"
}

client "c" {
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
  records = [for i in range(20) : { name = "host${i}", type = "AAAA", values = ["2001:db8::${i}"] }]
}

tunnel "lb-ns" {
  from = director.lb
  to   = backend.ns
}

service "dns" {
  director  = director.lb
  vip       = "fd00:18::101"
  scheduler = "rr"

  real_server {
    backends = backend.ns
    tunnel   = tunnel.lb-ns
  }
}

service "direct" {
  director  = director.lb
  vip       = "fd00:18::102"
  scheduler = "sh"
  forward   = "direct"

  real_server {
    backends = backend.ns
  }
}

experiment "tunnel" {
  service    = service.dns
  clients    = client.c
  iterations = var.iterations
  seed       = 1

  factor "scheduler" {
    values = ["rr", "dh"]
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

experiment "direct" {
  service    = service.direct
  clients    = client.c
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
    rotate = true
  }
}

check "nothing_lost" {
  assert {
    condition     = experiment.tunnel.unanswered + experiment.direct.unanswered == 0
    error_message = "Queries went unanswered: look at outcome_flags in runs.csv."
  }
}

check "even" {
  assert {
    condition     = alltrue([for b in backend.ns : abs(experiment.tunnel.shares["scheduler=rr"][b.id] - 1 / 3) < 0.001])
    error_message = "rr should give each backend a third of the source ports."
  }
}

check "addresses_are_spread" {
  assert {
    condition     = length([for s in values(experiment.direct.shares["scheduler=sh"]) : s if s > 0]) > 1
    error_message = "sh should use more than one backend for twelve addresses."
  }
}

output "shares" {
  description = "Share of each backend in the accepted answers, by treatment."
  value       = { tunnel = experiment.tunnel.shares, direct = experiment.direct.shares }
}
