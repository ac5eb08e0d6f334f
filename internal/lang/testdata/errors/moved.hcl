network "lan" { cidr = "198.18.0.0/24" }

client "c" {
  count = 2
  nic { network = network.lan }
}

zone "lab" {
  name    = "lab.test"
  records = [{ name = "a", type = "A", values = ["192.0.2.1"] }]
}

moved {
  from = client.c
  to   = client.d
}

moved {
  from = client.old[0]
  to   = director.lb
}

moved {
  from = "client.older"
  to   = client.c[0]
}

moved {
  from = zone.old
  to   = zone.lab
}

moved {
  from = client.a.address
  to   = module.m
}

moved {
  from = client.x
  to   = client.x
}

moved {
  from = client.p
  to   = client.q
}

moved {
  from = client.q
  to   = client.p
}

moved {
  from = client.p
  to   = client.r
}

moved {
  from = client.s
  to   = client.q
}

moved {
  from = client.c[count.index]
  to   = client.c[-1]
}

moved {
  to = client.c[1]
}

moved {
  from = client.c[1]
  to   = client.c[7]
}
