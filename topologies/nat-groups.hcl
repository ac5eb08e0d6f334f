# Clients behind NAT. Two households of two clients each, and each household has one
# address for the director: that of its router. sh hashes the address of the client, so
# it knows two clients where there are four, and one of three backends has nothing to do.
# With the flag sh-port the source port counts as well, and all have their part.
#
#   client.a[0], a[1] ── home-a ── router.a ─┐
#                                            ├─ outside ── director, three backends
#   client.b[0], b[1] ── home-b ── router.b ─┘
#
# -var nat=false makes the routers forward without touching an address: then sh sees
# all four.
#
# Advice that stays: closed-loop and few-blocks: counts are compared here, and no
# times; no-controls: the list keeps its order, since sh fills its table by it.

lab "nat-groups" {
  description = "Two groups of clients behind masquerading routers: who sh takes them for"
  teardown    = "on-success"
}

variable "iterations" {
  description = "Blocks."
  type        = number
  default     = 3
}

variable "queries" {
  description = "DNS queries of each client in each run."
  type        = number
  default     = 120
}

variable "nat" {
  description = "Whether the routers give what they send out their own address."
  type        = bool
  default     = true
}

network "outside" {
  cidr = "198.18.0.0/24"
}

network "home-a" {
  cidr = "198.18.1.0/24"
}

network "home-b" {
  cidr = "198.18.2.0/24"
}

router "a" {
  masquerade = var.nat ? network.outside : null

  nic { network = network.outside }

  nic { network = network.home-a }
}

router "b" {
  masquerade = var.nat ? network.outside : null

  nic { network = network.outside }

  nic { network = network.home-b }
}

client "a" {
  count = 2

  nic { network = network.home-a }
}

client "b" {
  count = 2

  nic { network = network.home-b }
}

director "lb" {
  nic { network = network.outside }
}

backend "ns" {
  count  = 3
  serves = [zone.lab]

  nic { network = network.outside }
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
  scheduler = "sh"

  real_server {
    backends = backend.ns
    tunnel   = tunnel.lb-ns
  }
}

experiment "groups" {
  service    = service.dns
  clients    = [client.a, client.b]
  iterations = var.iterations
  seed       = 1

  factor "scheduler" {
    values = ["rr", "sh"]
  }

  load "lvslab" {
    queries = var.queries
    sockets = 12
    window  = 10 # of four clients: backends need not hurry
  }

  controls {
    aa     = true
    direct = true
  }
}

experiment "ports" {
  service    = service.dns
  clients    = [client.a, client.b]
  iterations = var.iterations
  seed       = 1

  factor "flags" {
    values = [[], ["sh-port"]]
  }

  load "lvslab" {
    queries = var.queries
    sockets = "fresh"
    window  = 10
  }

  controls {
    aa     = true
    direct = true
  }
}

check "nothing_lost" {
  assert {
    condition     = experiment.groups.unanswered + experiment.ports.unanswered == 0
    error_message = "Queries went unanswered: look at outcome_flags in runs.csv."
  }
}

check "even" {
  assert {
    condition     = alltrue([for b in backend.ns : abs(experiment.groups.shares["scheduler=rr"][b.id] - 1 / 3) < 0.001])
    error_message = "rr should give each backend a third of the source ports."
  }
}

# Each group is half of the queries, and all of it goes where its router's address does.
check "a_group_is_one_client" {
  assert {
    condition     = !var.nat || length([for s in values(experiment.groups.shares["scheduler=sh"]) : s if s == 0 || s == 0.5]) == 3
    error_message = "sh should send each group to one backend, and nobody to the third."
  }
}

check "ports_tell_clients_apart" {
  assert {
    condition     = length([for s in values(experiment.ports.shares["flags=sh-port"]) : s if s > 0.2]) == 3
    error_message = "sh with sh-port should use all three backends."
  }
}

output "shares" {
  description = "Share of each backend in the accepted answers, by treatment."
  value       = { groups = experiment.groups.shares, ports = experiment.ports.shares }
}
