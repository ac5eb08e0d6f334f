# Direct routing instead of tunnels: the director rewrites the MAC address
# only, so that all machines stand on one network, which here has a slow wire.

lab "weighted-direct" {
  description = "Weights 1:1:1 and 4:2:1 over direct routing, three virtual addresses"
  teardown    = "always"
}

network "floor" {
  cidr = var.cidr

  impair {
    delay = "1ms"
    rate  = "100Mbit"
  }
}

client "desk" {
  count = 2

  nic {
    network = network.floor
  }
}

director "gate" {
  nic {
    network = network.floor
  }
}

# Three backends of different size, told apart by name and not by number.
backend "dns" {
  for_each = var.sizes
  memory   = each.value
  serves   = [zone.office]

  nic {
    network = network.floor
  }
}

zone "office" {
  name    = "office.example"
  records = [for n in range(40) : { name = format("printer-%02d", n), type = "A", values = [cidrhost("192.0.2.0/24", n + 1)] }]
}
