# A study whose blocks several machines share out; see ci-matrix.yml,
# gitlab-parallel.yml, slurm-array.sh and kubernetes-job.yaml.

lab "shared-out" {
  description = "blocks made on several machines, joined into one result"
}

variable "blocks" {
  type        = number
  default     = 4
  description = "Blocks of all shares together: at least as many as shares"
}

network "lan" { cidr = "198.18.0.0/24" }

client "c" {
  addresses = 8
  nic { network = network.lan }
}

director "lb" {
  nic { network = network.lan }
}

backend "ns" {
  count  = 2
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
}

service "dns" {
  director  = director.lb
  vip       = "198.18.0.101"
  scheduler = "rr"
  real_server {
    backends = backend.ns
    tunnel   = tunnel.lb-ns
  }
}

experiment "schedulers" {
  service    = service.dns
  clients    = client.c
  iterations = var.blocks
  seed       = 2026
  factor "scheduler" { values = ["rr", "wlc", "sh"] }
  load "lvslab" {
    queries = 100
    sockets = 10
  }
}

check "nothing_lost" {
  assert {
    condition     = experiment.schedulers.unanswered == 0
    error_message = "Queries without an answer: ${experiment.schedulers.unanswered}"
  }
}
