# One mistake of each phase: all are told at once.
network "lan" {
  cidr = "198.18.0.0/24"
  mut  = 1400
}

client "c" {
  count = -1
  nic { network = network.lan }
}

director "lb" {
  nic {
    network = network.lan
    address = "198.19.0.20"
  }
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
  director   = director.lb
  vip        = "198.18.0.101"
  scheduler  = "rrw"
  forward    = "masquerade"
  one_packet = true
  real_server { backends = backend.ns }
}

experiment "x" {
  service = service.dns
  clients = client.c
  load "dnsperf" { sockets = 1000 }
}

check "nothing_lost" {
  assert {
    condition     = experiment.x.unanswered + [] == 0
    error_message = "lost"
  }
}
