# One service for six addresses, or six services?
#
# With vips alone each virtual address is a service with a scheduler of its own:
# lblc takes the least loaded backend for an address that it has not seen, which
# there is always the list's head. With a firewall mark all of them are one
# service, so lblc spreads the addresses, and rr goes on from one address to the
# next. dh hashes the address alone and does not care.

lab "by-mark" {
  description = "Hashing by destination and rotation over six addresses of one mark"
}

network "lan" {
  cidr = "198.18.52.0/24"
}

client "probe" {
  nic { network = network.lan }
}

director "front" {
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

tunnel "front-ns" {
  from = director.front
  to   = backend.ns
}

service "dns" {
  director = director.front
  vips     = [for i in range(6) : cidrhost(network.lan.cidr, 100 + i)]
  fwmark   = 7

  real_server {
    backends = backend.ns
    tunnel   = tunnel.front-ns
  }
}

experiment "together" {
  service    = service.dns
  clients    = client.probe
  iterations = 1
  seed       = 3
  factor "scheduler" { values = ["rr", "wlc", "lblc", "dh", "sh", "sed", "mh"] }
  factor "one_packet" { values = [false, true] }

  load "lvslab" {
    queries = 120
    sockets = 3 # for each virtual address
  }
}

check "every_query_is_answered" {
  assert {
    condition     = experiment.together.unanswered == 0
    error_message = "Queries without an answer."
  }
}

output "decisions" { value = experiment.together.decisions }
output "shares" { value = experiment.together.shares }
