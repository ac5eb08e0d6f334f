variable "target" { default = "192.0.2.300" }

network "lan" { cidr = "198.18.0.0/24" }

backend "ns" {
  nic { network = network.lan }
  serves = [zone.lab, zone.lab]
}

zone "lab" {
  name = "lab.test"
  records = [
    { name = "ok", type = "A", values = ["192.0.2.1", "192.0.2.2"] },
    { name = "bad", type = "A", values = [var.target] },
    { name = "six", type = "A", values = ["2001:db8::1"] },
    { name = "www.lab.test.", type = "A", values = ["192.0.2.1"] },
    { name = "sp ace", type = "A", values = ["192.0.2.1"] },
    { name = "t", type = "AA", values = ["192.0.2.1"] },
    { name = "@", type = "SOA", values = ["ns. host. 1 2 3 4 5"] },
    { name = "ok", type = "a", values = ["192.0.2.3"] },
    { name = "ok", type = "CNAME", values = ["www"] },
    { name = "same", type = "A", values = ["192.0.2.1", "192.0.2.1"] },
    { name = "ttl", type = "A", ttl = -1, values = ["192.0.2.1"] },
    { name = "none", type = "A", values = [] },
    { name = "odd", typ = "A", values = ["192.0.2.1"] },
    { type = "A", values = ["192.0.2.1"] },
    { name = "mx", type = "MX", values = ["mail"] },
    "host",
  ]
}

zone "generated" {
  name    = "gen.test"
  records = [for i in range(3) : { name = "h${i}", type = "A", values = ["192.0.2.${i * 200}"] }]
}

zone "again" {
  name    = "LAB.test."
  records = []
}

zone "noname" {
  name    = "a b"
  records = [null]
}
