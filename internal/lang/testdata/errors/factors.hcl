network "lan" { cidr = "198.18.0.0/24" }
client "c" {
  nic { network = network.lan }
}
director "lb" {
  nic { network = network.lan }
}

service "dns" {
  director = director.lb
  vip      = "198.18.0.101"
}

experiment "x" {
  service = service.dns
  clients = client.c
  factor "schedular" { values = ["rr"] }
  factor "kernel" { values = ["6.12", director.lb] }
  factor "scheduler" { values = ["rr", "wrrr", "twos", "rr"] }
  factor "one_packet" { values = [true, "maybe"] }
  factor "sockets" { values = [0, 1, 300, "20"] }
  factor "weights" { values = [[1, -1], 5, []] }
  factor "order" { values = ["backwards", [0, 0]] }
  factor "timeout" { values = ["300s", 5, "1500ms"] }
  factor "queries" { values = [] }
  factor "rate" { values = [0, -5] }
  factor "protocol" { values = ["icmp"] }
  factor "flags" { values = [[], ["sh-prt"]] }
  factor "clients" { values = 3 }
  factor "clients" { values = [null] }
  load "dnsperf" {}
}
