network "outside" { cidr = "198.18.0.0/24" }
network "inside" { cidr = "198.18.1.0/24" }
network "far" { cidr = "198.18.2.0/24" }
network "island" { cidr = "198.18.3.0/24" }

# Between outside, inside and far, but not to the island.
router "r" {
  nic { network = network.outside }
  nic { network = network.far }
}

client "c" {
  nic { network = network.outside }
}

client "second" {
  nic { network = network.far }
  nic { network = network.outside }
}

client "beside" {
  nic { network = network.inside }
}

director "lb" {
  nic { network = network.outside }
  nic { network = network.inside }
}

director "other" {
  nic { network = network.outside }
  nic { network = network.inside }
}

director "lonely" {
  nic { network = network.outside }
}

backend "in" {
  serves = [zone.lab]
  nic { network = network.inside }
}

backend "away" {
  serves = [zone.lab]
  nic { network = network.far }
}

backend "lost" {
  serves = [zone.lab]
  nic { network = network.island }
}

zone "lab" {
  name    = "lab.test"
  records = [{ name = "a", type = "A", values = ["192.0.2.1"] }]
}

tunnel "lost" {
  from = director.lb
  to   = backend.lost
}

tunnel "away" {
  from = director.lb
  to   = backend.away
}

service "lost" {
  director = director.lb
  vip      = "198.18.0.101"
  real_server {
    backends = backend.lost
    tunnel   = tunnel.lost
  }
  real_server {
    backends = backend.away
    tunnel   = tunnel.away
  }
}

service "masq" {
  director = director.lb
  vip      = "198.18.0.102"
  forward  = "masquerade"
  real_server { backends = backend.in }
  real_server { backends = backend.away }
}

service "again" {
  director = director.other
  vip      = "198.18.0.103"
  forward  = "masquerade"
  real_server { backends = backend.in }
}

service "direct" {
  director = director.lonely
  vip      = "198.18.0.104"
  forward  = "direct"
  real_server { backends = backend.away }
}

experiment "past" {
  service = service.masq
  clients = client.beside
  load "dnsperf" {}
}

experiment "again" {
  service = service.again
  clients = client.c
  load "dnsperf" {}
}

experiment "second" {
  service = service.lost
  clients = client.second
  load "dnsperf" {}
}

experiment "lost" {
  service = service.lost
  clients = client.c
  load "dnsperf" {}
}
