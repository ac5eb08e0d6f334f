network "outside" { cidr = "198.18.0.0/24" }
network "second" { cidr = "198.18.1.0/24" }
network "home" { cidr = "198.18.2.0/24" }
network "other" { cidr = "198.18.3.0/24" }
network "six" { cidr = "fd00:7::/64" }

router "nat" {
  masquerade = network.outside
  nic { network = network.outside }
  nic { network = network.home }
}

# Translates what goes to one of the VIPs only.
router "half" {
  masquerade = network.second
  nic { network = network.outside }
  nic { network = network.second }
  nic { network = network.other }
}

router "plain" {
  nic { network = network.outside }
  nic { network = network.second }
}

router "absent" {
  masquerade = network.outside
  nic { network = network.second }
  nic { network = network.home }
}

router "alone" {
  masquerade = network.outside
  nic { network = network.outside }
}

router "six" {
  masquerade = network.six
  nic { network = network.six }
  nic { network = network.home }
}

router "wrong" {
  masquerade = zone.lab
  nic { network = network.home }
}

client "home" {
  nic { network = network.home }
}

client "other" {
  nic { network = network.other }
}

client "out" {
  nic { network = network.outside }
}

# Its tunnels would have the router's address, and nobody outside has a way to it.
director "hidden" {
  nic { network = network.home }
}

director "lb" {
  nic { network = network.outside }
  nic { network = network.second }
}

director "both" {
  nic { network = network.outside }
  nic { network = network.home }
}

backend "ns" {
  serves = [zone.lab]
  nic { network = network.outside }
}

backend "in" {
  serves = [zone.lab]
  nic { network = network.home }
}

zone "lab" {
  name    = "lab.test"
  records = [{ name = "a", type = "A", values = ["192.0.2.1"] }]
}

tunnel "hidden" {
  from = director.hidden
  to   = backend.ns
}

tunnel "lb" {
  from = director.lb
  to   = backend.ns
}

tunnel "both" {
  from = director.both
  to   = backend.in
}

service "hidden" {
  director = director.hidden
  vip      = "198.18.2.101"
  real_server {
    backends = backend.ns
    tunnel   = tunnel.hidden
  }
}

service "two" {
  director = director.lb
  vips     = ["198.18.0.101", "198.18.1.101"]
  real_server {
    backends = backend.ns
    tunnel   = tunnel.lb
  }
}

service "back" {
  director = director.both
  vip      = "198.18.0.102"
  real_server {
    backends = backend.in
    tunnel   = tunnel.both
  }
}

experiment "hidden" {
  service = service.hidden
  clients = client.home
  load "dnsperf" {}
}

experiment "two" {
  service = service.two
  clients = client.other
  load "dnsperf" {}
}

experiment "back" {
  service = service.back
  clients = client.out
  load "dnsperf" {}
}
