variable "host" { default = 20 }

network "lan" { cidr = "198.18.0.0/24" }
network "overlap" { cidr = "198.18.0.128/25" }
network "loop" { cidr = "127.0.0.0/24" }
network "public" { cidr = "8.8.8.0/24" }
network "tiny" { cidr = "198.18.9.0/31" }

client "c" {
  count = 2
  nic {
    network = network.lan
    address = cidrhost(network.lan.cidr, var.host)
  }
}

client "twice" {
  nic { network = network.lan }
  nic { network = network.lan }
}

director "lb" {
  nic {
    network = network.lan
    address = "198.18.1.20"
  }
}

director "zero" {
  nic {
    network = network.lan
    address = "198.18.0.0"
  }
}

director "last" {
  nic {
    network = network.lan
    address = "198.18.0.255"
  }
}

director "vip" {
  nic {
    network = network.lan
    address = "198.18.0.101"
  }
}

service "dns" {
  director = director.lb
  vip      = "198.18.0.101"
}

service "beyond" {
  director = director.zero
  vips     = ["198.18.5.1", "198.18.0.255"]
}
