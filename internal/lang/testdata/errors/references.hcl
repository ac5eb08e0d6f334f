variable "iterations" { default = 5 }

locals {
  loop   = [for i in range(3) : i + j]
  hidden = [for backend in range(3) : backend]
  extra  = lokal.loop
}

network "lan" { cidr = "198.18.0.0/24" }

client "c" {
  count = var.iteration
  nic { network = network.lam }
}

director "lb" {
  nic { network = lan }
}

backend "ns" {
  count  = 3
  serves = [zone.lab]
  nic { network = network.lan }
}

zone "lab" {
  name    = "lab.test"
  records = [{ name = "a", type = "A", values = [director.lb[0].address, backend.ns.address, backend.ns[0].adress] }]
}

tunnel "t" {
  from = director.lb
  to   = client.ns
}

service "dns" {
  director  = director
  vip       = cidrhosts("198.18.0.0/24", 101)
  port      = tunnel.t.port
  protocol  = each.key
  scheduler = count.index
  flags     = [timestamp()]
  forward   = service.dsn.forward
  real_server {
    backends = backend.ns[7]
    tunnel   = tunnel.t[*]
    weight   = data.x.y
  }
}

experiment "x" {
  service    = service.dns
  clients    = client.c
  iterations = var.iterations.foo
  load "dnsperf" { queries = length(backends.ns) }
}

check "c" {
  assert {
    condition     = experiment.x.unanswerd == 0
    error_message = "lost ${experiment.y.unanswered} of ${lab.title}"
  }
}
