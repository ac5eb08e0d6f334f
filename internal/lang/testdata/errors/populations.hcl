network "lan" { cidr = "198.18.0.0/24" }

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
  records = [{ name = "a", type = "A", values = ["192.0.2.1"] }]
}

service "dns" {
  director = director.lb
  vip      = "198.18.0.101"
  forward  = "direct"
  real_server { backends = [backend.ns[0], backend.ns[1]] }
}

service "tcp" {
  director = director.lb
  vip      = "198.18.0.102"
  protocol = "tcp"
  forward  = "direct"
  real_server { backends = backend.ns }
}

service "bare" {
  director = director.lb
  vip      = "198.18.0.103"
  forward  = "direct"
}

population "missing" {
  service = service.dns
}

population "bounds" {
  service     = service.dns
  clients     = 20000000
  rate        = 0
  per_address = 0
  ports       = "many"
  duration    = "48h"
  skew        = -1
}

population "whose" {
  service = service.tcp
  clients = 1000
  rate    = 10
}

population "nobody" {
  service = service.bare
  clients = 1000
  rate    = 10
}

population "no_service" {
  service = backend.ns[0]
  clients = 1000
  rate    = 10
}

population "ports" {
  service     = service.dns
  clients     = 1000
  rate        = 10
  per_address = 1000
  ports       = 100
}

population "long" {
  service  = service.dns
  clients  = 1000
  rate     = 1e9
  duration = "1h"
}

population "factors" {
  service = service.dns
  clients = 1000
  rate    = 10
  factor "clients" { values = [1, 10] }
  factor "weights" { values = [[2, 1]] }
  factor "weights" { values = [[1, 2]] }
  factor "colour" { values = ["red"] }
}

population "failures" {
  service = service.dns
  clients = 1000
  rate    = 10
  failure {
    backend = backend.ns[2]
    at      = "1m"
  }
  failure {
    backend = backend.ns[0]
    at      = "11m"
  }
  failure {
    backend = backend.ns[1]
    at      = "1m"
    noticed = "10s"
    back    = "1m5s"
  }
  failure {
    backend = backend.ns[1]
    at      = "2m"
  }
}

population "half_failure" {
  service = service.dns
  clients = 1000
  rate    = 10
  failure { at = "2m" }
}

population "silent" {
  service = service.dns
  clients = 1000
  rate    = 0
}

population "unfit" {
  service = service.dns
  clients = 1000
  rate    = 10
  factor "weights" { values = [[1, 2, 3]] }
}

output "of_a_population" { value = population.bounds.shares }
