network "lan" { cidr = "198.18.0.0/24" }

client "many" {
  count = 5000
  nic { network = network.lan }
}

client "null" {
  for_each = null
  nic { network = network.lan }
}

client "keyed" {
  for_each = toset(["a", "b"])
  nic { network = network.lan }
}

client "empty" {
  for_each = { "" = 1 }
  nic { network = network.lan }
}

director "lb" {
  count = 2
  nic { network = network.lan }
}

backend "ns" {
  count = 2
  nic {
    network = network.lan
    address = cidrhost(network.lan.cidr, 300 + count.index)
  }
}

backend "none" {
  count = 0
  nic { network = network.lan }
}

tunnel "t" {
  from = director.lb
  to   = backend.ns
}

tunnel "u" {
  for_each = { a = backend.ns }
  from     = director.lb[0]
  to       = each.value
}

service "dns" {
  director = director.lb
  vip      = client.keyed[*].address
}

service "other" {
  director = director.lb[0]
  vip      = "198.18.0.101"
  real_server {
    backends = true ? backend.ns : client.keyed
    weight   = client.keyed["c"].address
  }
}

experiment "x" {
  service = service.other
  clients = client.keyed["c"]
  load "dnsperf" {}
}

backend "secret" {
  count = sensitive(2)
  nic { network = network.lan }
}

output "open" { value = [sensitive("x")] }
