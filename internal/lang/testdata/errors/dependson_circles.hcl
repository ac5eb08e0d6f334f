network "lan" { cidr = "198.18.0.0/24" }

client "c" {
  count      = 2
  depends_on = [service.dns, client.d]
  nic { network = network.lan }
}

client "d" {
  depends_on = [client.c]
  nic { network = network.lan }
}

director "lb" {
  nic { network = network.lan }
}

backend "ns" {
  serves     = [zone.lab]
  depends_on = [service.dns]
  nic { network = network.lan }
}

zone "lab" {
  name    = "lab.test"
  records = [{ name = "a", type = "A", values = ["192.0.2.1"] }]
}

tunnel "t" {
  from = director.lb
  to   = backend.ns
}

service "dns" {
  director = director.lb
  vip      = "198.18.0.101"
  real_server {
    backends = backend.ns
    tunnel   = tunnel.t
  }
}

experiment "x" {
  service    = service.dns
  clients    = client.c
  depends_on = [experiment.y]
  load "dnsperf" {}
}

experiment "y" {
  service    = service.dns
  clients    = client.c
  depends_on = [experiment.x]
  load "dnsperf" {}
}
