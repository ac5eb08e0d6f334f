network "lan" {
  cidr = "198.18.0.0/24"
}

client "c" { nic { network = network.lan } }

director "lb" {
  count = = 2
}
