network "lan" { cidr = "198.18.0.0/24" }

zone "lab" {
  name    = "lab.test"
  records = [{ name = "a", type = "A", values = ["192.0.2.1"] }]
}

client "c" {
  server = "nsd"
  nic { network = network.lan }
}

backend "misspelt" {
  server = "unbond"
  serves = [zone.lab]
  nic { network = network.lan }
}

backend "settings" {
  server      = "nsd"
  recursion   = true
  tcp_clients = 10
  serves      = [zone.lab]
  nic { network = network.lan }
}
