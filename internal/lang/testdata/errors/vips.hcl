network "lan" { cidr = "198.18.0.0/24" }

director "lb" {
  count = 2
  nic { network = network.lan }
}

service "beyond" {
  director = director.lb[0]
  vips     = ["198.18.5.1", "198.18.0.255", "198.18.0.7", "198.18.0.7"]
}

service "a" {
  director = director.lb[0]
  vip      = "198.18.0.100"
  timeout  = { udp = "10s" }
}

service "b" {
  director = director.lb[1]
  vip      = "198.18.0.100"
}

service "c" {
  director = director.lb[0]
  vip      = "198.18.0.100"
  timeout  = { udp = "20s" }
}

service "none" {
  director = director.lb[0]
}
