network "lan" { cidr = "198.18.0.0/24" }

client "c" {
  nic { network = network.lan }
}

director "lb" {
  nic { network = network.lan }
}

backend "ns" {
  serves = [zone.lab]
  nic { network = network.lan }
}

zone "lab" {
  name    = "lab.test"
  records = [{ name = "a", type = "A", values = ["192.0.2.1"] }]
}

service "dns" {
  director = director.lb
  vip      = "198.18.0.101"
  forward  = "direct"
  real_server { backends = backend.ns }
}

experiment "reference" {
  service = service.dns
  clients = client.c
  factor "sockets" { values = [1, "fresh", "few"] }
  load "dnsperf" {
    sockets = "fresh"
    mode    = "open"
    window  = 10
  }
}

experiment "own" {
  service = service.dns
  clients = client.c
  load "lvslab" {
    queries = 100001
    sockets = "many"
    mode    = "ajar"
    window  = 0
  }
}

experiment "clockless" {
  service = service.dns
  clients = client.c
  load "lvslab" {
    sockets = "fresh"
    mode    = "open"
  }
}

experiment "windowed" {
  service = service.dns
  clients = client.c
  factor "rate" { values = [0, 100] }
  factor "queries" { values = [10, 200000] }
  load "lvslab" {
    sockets = 20
    mode    = "open"
    window  = 7
  }
}

experiment "other" {
  service = service.dns
  clients = client.c
  load "lvslabs" {}
}
