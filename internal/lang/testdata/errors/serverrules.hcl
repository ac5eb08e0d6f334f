network "lan" { cidr = "198.18.0.0/24" }

zone "lab" {
  name    = "lab.test"
  records = [{ name = "a", type = "A", values = ["192.0.2.1"] }]
}

backend "misspelt" {
  server = "unbond"
  serves = [zone.lab]
  nic { network = network.lan }
}

backend "idle" {
  server = "knot"
  nic { network = network.lan }
}

backend "plain" {
  server = "bind"
  nic { network = network.lan }
}

backend "named-after-a-long-hostname" {
  for_each = toset(["its-key-is-much-too-long-for-the-host-name-of-a-machine"])
  server   = "nsd"
  serves   = [zone.lab]
  nic { network = network.lan }
}
