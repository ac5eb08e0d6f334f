# The same farm twice, once with two backends and once with three, on one
# network. What makes a farm stands in a module.

lab "two-farms" {
  description = "Two farms made by one module; 20 source ports on the larger one"
}

network "lan" { cidr = "198.18.100.0/24" }

client "c" {
  nic { network = network.lan }
}

locals {
  sizes = { small = 2, large = 3 }
  vips  = { for i, name in keys(local.sizes) : name => cidrhost(network.lan.cidr, 100 + i) }
}

module "farm" {
  for_each = local.sizes

  source  = "./farm"
  network = network.lan
  size    = each.value
  vip     = local.vips[each.key]
  zone    = "${each.key}.test"
}

experiment "spread" {
  service    = module.farm["large"].service
  clients    = client.c
  iterations = 5
  seed       = 2026

  factor "scheduler" { values = ["rr", "sed"] }

  load "dnsperf" {
    queries = 600
    sockets = 20
  }
}

check "all_answered" {
  assert {
    condition     = experiment.spread.unanswered == 0
    error_message = "Queries without an answer: ${experiment.spread.unanswered}."
  }
}

check "all_backends_are_used" {
  assert {
    condition     = alltrue([for b in module.farm["large"].backends : experiment.spread.shares["scheduler=rr"][b.id] > 0.2])
    error_message = "With 20 ports round robin should give each of three backends about a third."
  }
}

output "shares" { value = experiment.spread.shares }
output "addresses" { value = { for name, farm in module.farm : name => farm.backends[*].address } }
