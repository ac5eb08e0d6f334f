network "lan" { cidr = "198.18.0.0/24" }

client "c" {
  nic { network = network.lan }
}

director "lb" {
  nic { network = network.lan }
}

director "other" {
  nic { network = network.lan }
}

backend "ns" {
  count  = 2
  serves = [zone.lab]
  nic { network = network.lan }
}

backend "idle" {
  nic { network = network.lan }
}

zone "lab" {
  name    = "lab.test"
  records = [{ name = "a", type = "A", values = ["192.0.2.1"] }]
}

tunnel "lb" {
  from = director.lb
  to   = backend.ns
}

tunnel "again" {
  from = director.lb
  to   = backend.ns[1]
}

service "untunnelled" {
  director  = director.lb
  vip       = "198.18.0.101"
  scheduler = "rr"
  flags     = ["sh-port"]
  real_server { backends = backend.ns }
}

service "wrongway" {
  director = director.other
  vip      = "198.18.0.102"
  real_server {
    backends = backend.ns
    tunnel   = tunnel.lb
  }
}

service "ports" {
  director = director.lb
  vip      = "198.18.0.103"
  port     = 5353
  real_server {
    backends = backend.ns[0]
    tunnel   = tunnel.lb
    port     = 53
  }
  real_server {
    backends = backend.ns[1]
    tunnel   = tunnel.lb
  }
}

service "masq" {
  director   = director.lb
  vip        = "198.18.0.104"
  forward    = "masquerade"
  one_packet = true
  real_server {
    backends = backend.ns
    tunnel   = tunnel.lb
    port     = 5300
  }
}

service "tcp" {
  director   = director.lb
  vip        = "198.18.0.105"
  protocol   = "tcp"
  one_packet = true
  forward    = "direct"
  real_server { backends = [backend.ns, backend.idle] }
  real_server { backends = backend.ns[0] }
}

service "marked" {
  director = director.lb
  vip      = "198.18.0.106"
  forward  = "direct"
  fwmark   = 7
  real_server { backends = backend.ns }
}

service "marked-too" {
  director = director.lb
  vip      = "198.18.0.107"
  forward  = "direct"
  fwmark   = 7
  real_server { backends = backend.ns }
}

service "nowhere" {
  director = director.lb
  forward  = "direct"
  fwmark   = 8
  real_server { backends = backend.ns }
}

experiment "both" {
  service = service.marked
  clients = client.c
  factor "protocol" { values = ["udp", "tcp"] }
  load "dnsperf" {}
}
