# What IPv6 asks for, and what only a tunnel carries across the families.
network "four" { cidr = "198.18.0.0/24" }
network "six" {
  cidr = "fd00:18::/64"
  mtu  = 1200
}
network "loop" { cidr = "::/64" }
network "mapped" { cidr = "::ffff:198.18.1.0/120" }
network "tiny" { cidr = "fd00:19::/126" }
network "theirs" { cidr = "2600::/64" }

client "c" {
  nic { network = network.six }
}

director "lb" {
  nic { network = network.six }
  nic { network = network.four }
}

backend "old" {
  serves = [zone.lab]
  nic { network = network.four }
}

backend "ns" {
  serves = [zone.lab]
  nic { network = network.six }
}

zone "lab" {
  name    = "lab.test"
  records = [{ name = "a", type = "A", values = ["192.0.2.1"] }]
}
