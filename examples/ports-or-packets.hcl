# What does a scheduler decide about: a source port or a packet?
#
# Twenty sockets instead of dnsperf's one, with and without one-packet
# scheduling. Without it a port keeps its backend (20 decisions a run, rr gives
# 7, 7 and 6 of them away); with it each query is decided for itself (rr is
# even, but lc falls back to the head of the list, because a packet's entry is
# gone before the next one comes).

lab "ports-or-packets" {
  description = "rr, lc and nq with 20 source ports, by port and by packet"
}

variable "blocks" {
  type    = number
  default = 6
}

network "edge" {
  cidr = "198.18.40.0/24"
}

client "probe" {
  nic {
    network = network.edge
  }
}

director "balancer" {
  nic {
    network = network.edge
    address = cidrhost(network.edge.cidr, 5)
  }
}

backend "resolver" {
  count  = 3
  serves = [zone.campus]

  nic {
    network = network.edge
    address = cidrhost(network.edge.cidr, 60 + 10 * count.index) # .60, .70, .80
  }
}

locals {
  rooms = ["library", "lab", "office", "hall", "gym"]
}

zone "campus" {
  name = "campus.example"
  records = concat(
    [for r in local.rooms : { name = r, type = "A", ttl = 60, values = [cidrhost("203.0.113.0/24", 10 + index(local.rooms, r))] }],
    [for r in local.rooms : { name = r, type = "AAAA", ttl = 60, values = [cidrhost("2001:db8:7::/64", 10 + index(local.rooms, r))] }],
    [
      { name = "@", type = "MX", values = ["10 library.campus.example."] },
      { name = "about", type = "TXT", values = ["\"five rooms\""] },
    ],
  )
}

tunnel "to-resolvers" {
  from = director.balancer
  to   = backend.resolver
}

service "names" {
  director  = director.balancer
  vip       = cidrhost(network.edge.cidr, 110)
  scheduler = "rr"

  real_server {
    backends = backend.resolver
    tunnel   = tunnel.to-resolvers
  }
}

experiment "unit" {
  service    = service.names
  clients    = client.probe
  iterations = var.blocks
  seed       = 40

  factor "scheduler" { values = ["rr", "lc", "nq"] }
  factor "one_packet" { values = [false, true] }

  load "dnsperf" {
    queries = 600
    sockets = 20
  }
}

check "every_query_is_answered" {
  assert {
    condition     = experiment.unit.answers_ok == 600 * experiment.unit.runs
    error_message = "${experiment.unit.answers_ok} of ${600 * experiment.unit.runs} queries were answered."
  }
}

check "a_packet_is_a_decision" {
  assert {
    condition     = experiment.unit.decisions["scheduler=rr,one_packet=true"] >= 20 * experiment.unit.decisions["scheduler=rr,one_packet=false"]
    error_message = "With one_packet there should be a decision for each packet."
  }
}

output "shares" {
  value = experiment.unit.shares
}
