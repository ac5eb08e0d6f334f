# What makes an IPVS scheduler choose: ports or packets (one_packet), weights, the
# number of clients for sh, the number of virtual addresses for dh and lblc. Counts
# only, so three blocks are enough: in each another backend is the head of the list.
# Many combinations are one treatment by the kernel's rules, as all schedulers are for
# one source port: the first of each kind is run and stands for the others (collapse).
#
# Advice that stays: one-port, active-udp, one-vip, one-client and ops-least are the
# mechanisms that it shows beside those that spread; closed-loop and few-blocks:
# counts are compared here, and no times.

lab "mechanism" {
  description = "Schedulers by source ports, one-packet scheduling, weights, clients and virtual addresses"
  teardown    = "on-success"
}

variable "queries" {
  description = "DNS queries of each run."
  type        = number
  default     = 120
}

network "lan" {
  cidr = "198.18.0.0/24"
}

client "one" {
  nic { network = network.lan }
}

# One machine with the addresses of 24 clients.
client "many" {
  addresses = 24

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
  records = [for i in range(20) : { name = "host${i}", type = "A", values = ["192.0.2.${i}"] }]
}

tunnel "lb-ns" {
  from = director.lb
  to   = backend.ns
}

service "dns" {
  director  = director.lb
  vips      = [for i in range(16) : cidrhost(network.lan.cidr, 100 + i)]
  scheduler = "rr"

  real_server {
    backends = backend.ns
    tunnel   = tunnel.lb-ns
  }
}

# Entries or packets: each source port is one choice, with one_packet each query is.
experiment "ports" {
  service    = service.dns
  clients    = client.one
  iterations = 3
  seed       = 1
  collapse   = true

  factor "scheduler" {
    values = ["rr", "wrr", "lc", "wlc", "lblc", "lblcr", "dh", "sh", "sed", "nq", "mh"]
  }

  factor "sockets" {
    values = [1, 20, 30]
  }

  factor "one_packet" {
    values = [false, true]
  }

  factor "weights" {
    values = [[1, 1, 1], [3, 2, 1]]
  }

  factor "vips" {
    values = [1]
  }

  load "dnsperf" {
    queries = var.queries
  }

  controls {
    aa     = true
    direct = true
    rotate = true
  }
}

# sh and mh hash the client: one client is one choice, 24 are 24.
experiment "clients" {
  service    = service.dns
  clients    = client.many
  iterations = 3
  seed       = 1
  collapse   = true

  factor "scheduler" {
    values = ["rr", "sh", "mh"]
  }

  factor "vips" {
    values = [1]
  }

  load "dnsperf" {
    queries = var.queries
  }

  controls {
    aa     = true
    direct = true
    rotate = true
  }
}

# dh, lblc and lblcr look at the virtual address: one is one choice, 16 are 16.
experiment "addresses" {
  service    = service.dns
  clients    = client.one
  iterations = 3
  seed       = 1
  collapse   = true

  factor "scheduler" {
    values = ["rr", "dh", "lblc", "lblcr"]
  }

  factor "vips" {
    values = [1, 16]
  }

  load "dnsperf" {
    queries = var.queries
  }

  controls {
    aa     = true
    direct = true
    rotate = true
  }
}

check "nothing_lost" {
  assert {
    condition     = experiment.ports.unanswered + experiment.clients.unanswered + experiment.addresses.unanswered == 0
    error_message = "Queries went unanswered: look at outcome_flags in runs.csv."
  }
}

output "decisions" {
  description = "Choices that the scheduler made, by treatment."
  value       = { ports = experiment.ports.decisions, clients = experiment.clients.decisions, addresses = experiment.addresses.decisions }
}
