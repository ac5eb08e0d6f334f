network "lan" { cidr = "198.18.0.0/24" }

client "c" {
  count      = 2
  depends_on = [service.dns, backend.nss]
  nic { network = network.lan }
}

director "lb" {
  depends_on = [director.lb]
  nic { network = network.lan }
}

backend "ns" {
  serves     = [zone.lab]
  depends_on = [service.dns, zone.lab, experiment.x, "client.c", network.lan.cidr, var.x]
  nic { network = network.lan }
}

variable "x" { default = 1 }

zone "lab" {
  name    = "lab.test"
  records = [{ name = "a", type = "A", values = ["192.0.2.1"] }]
}

tunnel "t" {
  from       = director.lb
  to         = backend.ns
  depends_on = backend.ns
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
  depends_on = [experiment.x]
  load "dnsperf" {}
}
