# How many connections are open at a time?
#
# sed and nq count active connections. Here each query has a connection and a
# source port of its own, by the agent's own load generator: one after the other
# (window = 1) in the first study, ten side by side in the second. See
# docs/findings.md for what came out.

lab "one-at-a-time" {
  description = "sed and nq over TCP, with one connection at a time and with ten"
}

network "lan" {
  cidr = "198.18.50.0/24"
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
  records = [for i in range(50) : { name = "host${i}", type = "A", values = ["192.0.2.${i}"] }]
}

tunnel "front-ns" {
  from = director.front
  to   = backend.ns
}

service "dns" {
  director = director.front
  vip      = "198.18.50.101"
  protocol = "tcp"

  real_server {
    backends = backend.ns
    tunnel   = tunnel.front-ns
  }
}

experiment "one" {
  service    = service.dns
  clients    = client.probe
  iterations = 3
  factor "scheduler" { values = ["rr", "lc", "wlc", "sed", "nq"] }

  load "lvslab" {
    queries = 300
    sockets = "fresh"
    window  = 1
  }
}

experiment "ten" {
  service    = service.dns
  clients    = client.probe
  iterations = 3
  factor "scheduler" { values = ["sed", "nq"] }

  load "lvslab" {
    queries = 300
    sockets = "fresh"
    window  = 10
  }
}

check "every_query_is_answered" {
  assert {
    condition     = experiment.one.unanswered + experiment.ten.unanswered == 0
    error_message = "Queries without an answer."
  }
}

output "one_at_a_time" { value = experiment.one.shares }
output "ten_at_a_time" { value = experiment.ten.shares }
