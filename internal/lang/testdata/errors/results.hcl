network "lan" { cidr = "198.18.0.0/24" }
client "c" {
  nic { network = network.lan }
}
director "lb" {
  nic { network = network.lan }
}

backend "ns" {
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
  real_server { backends = backend.ns }
}

experiment "x" {
  service = service.dns
  clients = client.c
  load "dnsperf" {}
}

check "types" {
  assert {
    condition     = experiment.x.runs
    error_message = "runs"
  }
  assert {
    condition     = experiment.x.shares["scheduler=rr"].head > 0.5
    error_message = experiment.x.shares
  }
  assert {
    condition     = contains(experiment.x.flags, "not_answered", 3)
    error_message = "flags"
  }
}

output "typo" {
  value = [for e in [experiment.x] : e.unanswerd]
}

output "sum" {
  value = experiment.x.runs + backend.ns
}
