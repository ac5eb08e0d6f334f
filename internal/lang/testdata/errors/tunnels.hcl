# What the outer header of a tunnel has no place for.
lab "x" {}
network "lan" { cidr = "198.18.0.0/24" }
director "lb" {
  nic { network = network.lan }
}
backend "ns" {
  count = 5
  nic { network = network.lan }
}
tunnel "plain" {
  from     = director.lb
  to       = backend.ns[0]
  checksum = "full"
}
tunnel "gre" {
  from     = director.lb
  to       = backend.ns[1]
  type     = "gre"
  checksum = "remote"
}
tunnel "other" {
  from     = director.lb
  to       = backend.ns[2]
  type     = "vxlan"
  checksum = "crc"
}
tunnel "six" {
  from   = director.lb
  to     = backend.ns[3]
  family = "ipv6"
}
tunnel "seven" {
  from   = director.lb
  to     = backend.ns[4]
  family = "inet6"
}
