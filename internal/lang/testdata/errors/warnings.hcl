network "lan" { cidr = "9.0.0.0/24" }

client "c" {
  nic {
    network = network.lan
  }
}

director "lb" {
  nic {
    network = network.lan
  }
}

backend "a" {
  serves = [zone.lab]
  nic {
    network = network.lan
  }
}

backend "b" {
  serves = [zone.lab, zone.other]
  nic {
    network = network.lan
  }
}

zone "lab" {
  name    = "lab.test"
  records = [{ name = "many", type = "A", values = [for i in range(40) : "192.0.2.${i}"] }]
}

zone "other" {
  name    = "other.test"
  records = []
}

service "dns" {
  director  = director.lb
  vip       = "9.0.0.101"
  scheduler = "rr"
  flags     = ["mh-port", "sh-port"]
  forward   = "direct"
  real_server { backends = [backend.a, backend.b] }
}

experiment "x" {
  service = service.dns
  clients = client.c
  factor "scheduler" { values = ["rr", "sh"] }
  load "dnsperf" {}
}
