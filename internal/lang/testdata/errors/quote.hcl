network "lan" {
  cidr = "198.18.0.0/24
}

client "c" {
  count = 2
}
