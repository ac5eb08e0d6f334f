variable "wide" {
  type    = number
  default = "broad"
}

variable "odd" { type = numbr }

variable "flags" {
  default   = upper(var.wide)
  sensitive = "maybe"
}

network "lan" {
  cidr = ["198.18.0.0/24"]
  mtu  = 99999
  impair {
    delay  = 2
    jitter = "1ms"
    loss   = "150%"
    rate   = "10 parsec"
  }
}

network "wan" { cidr = "198.18.1.7/24" }

network "six" { cidr = "2001:db8::/64" }

client "c" {
  count     = 1.5
  addresses = 0
  nic { network = network.wan }
}

client "d" {
  for_each = ["a", "b"]
  nic { network = network.wan }
}

director "lb" {
  memory = "64MiB"
  boot   = "warm"
  sysctl = { "net..x" = 1 }
  nic {
    network = "network.wan"
    address = "198.18.1.20/24"
  }
}

director "lb2" {
  memory = 256
  nic {
    network = director.lb
    address = director.lb
  }
}

backend "ns" {
  count  = 2
  memory = "256MB"
  serves = zone.lab
  nic { network = network.wan }
}

zone "lab" {
  name    = "lab.test"
  records = "host0"
}

tunnel "t" {
  from = backend.ns
  to   = director.lb
  type = "ipp"
}

service "dns" {
  director   = director.lb2
  vip        = "198.18.1"
  port       = "dns"
  protocol   = "sctp"
  scheduler  = "rrr"
  one_packet = "yes"
  timeout    = { udp = "1.5s", udt = "1s", tcp = 5 }
  flags      = ["sh_port"]
  forward    = "nat"
  real_server {
    backends = backend.ns
    weight   = -1
    upper    = 3
    lower    = 5
  }
}

service "two" {
  director  = backend.ns
  vip       = "198.18.1.102"
  scheduler = "twos"
  timeout   = "300s"
  real_server { backends = [backend.ns[0], 7] }
}

experiment "x" {
  service    = service.dns
  clients    = [director.lb]
  iterations = 0
  seed       = 1.5
  load "dnspref" {
    queries = 0
    sockets = 257
    timeout = "soon"
    rate    = -1
  }
}
