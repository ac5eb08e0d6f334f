# What would a million clients do to this service?
#
# Nothing here needs a machine: `lvslab predict examples/millions.hcl` answers by
# the kernel's rules. A town behind translators, twenty clients to an address,
# and the resolvers of some providers, which ask from few addresses and from the
# same ports again and again.

lab "millions" {
  description = "shares, entries and memory of a service that a million clients ask"
}

network "edge" {
  cidr = "198.18.60.0/24"
}

director "balancer" {
  nic { network = network.edge }
}

backend "ns" {
  count  = 4
  serves = [zone.town]
  nic { network = network.edge }
}

zone "town" {
  name    = "town.example"
  records = [{ name = "www", type = "A", values = ["192.0.2.1"] }]
}

service "names" {
  director = director.balancer
  vips     = [for i in range(3) : cidrhost(network.edge.cidr, 100 + i)]
  forward  = "direct"
  timeout  = { udp = "60s" }

  real_server {
    backends = [backend.ns[0], backend.ns[1]]
    weight   = 2
  }
  real_server {
    backends = [backend.ns[2], backend.ns[3]]
  }
}

# Homes: each query from a fresh port, a few of them ask much more than others.
population "town" {
  service     = service.names
  clients     = 1000000
  per_address = 20
  rate        = 20000
  duration    = "10m"
  skew        = 0.8

  factor "scheduler" { values = ["wrr", "wlc", "sh", "mh"] }

  failure {
    backend = backend.ns[0]
    at      = "6m"
    noticed = "5s"
  }
}

# Providers' resolvers: few, busy, each with 64 ports that it keeps. Entries hardly
# ever end, so weights that are changed are hardly ever obeyed.
population "resolvers" {
  service  = service.names
  clients  = 200
  ports    = 64
  rate     = 20000
  duration = "10m"

  factor "scheduler" { values = ["wrr", "sh"] }
  factor "one_packet" { values = [false, true] }

  failure {
    backend = backend.ns[0]
    at      = "6m"
    noticed = "5s"
    back    = "6m35s"
  }
}
