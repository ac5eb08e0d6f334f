variable "cidr" {
  type    = string
  default = "198.18.96.0/22"
}

variable "sizes" {
  description = "Memory of each backend."
  type        = map(string)
}

variable "vips" {
  type    = number
  default = 3

  validation {
    condition     = var.vips >= 1 && var.vips <= 16
    error_message = "There are 16 addresses for services, not ${var.vips}."
  }
}

service "dns" {
  director  = director.gate
  vips      = [for i in range(var.vips) : cidrhost(var.cidr, 400 + i)]
  scheduler = "wrr"
  forward   = "direct"
  timeout   = { udp = "60s" }

  real_server {
    backends = backend.dns["large"]
    weight   = 4
  }

  real_server {
    backends = backend.dns["medium"]
    weight   = 2
  }

  real_server {
    backends = backend.dns["small"]
    weight   = 1
  }
}

experiment "weights" {
  service    = service.dns
  clients    = client.desk
  iterations = 4
  capture    = true

  factor "weights" {
    values = [[1, 1, 1], [4, 2, 1]]
  }
  factor "scheduler" {
    values = ["wrr", "wlc"]
  }

  load "dnsperf" {
    queries = 400
    sockets = 28
  }
}

check "the_large_one_gets_more" {
  assert {
    condition     = experiment.weights.shares["weights=4:2:1,scheduler=wrr"][backend.dns["large"].id] > 0.5
    error_message = "${backend.dns["large"].id} with weight 4 of 7 should answer more than half."
  }
}

output "unanswered" {
  value = experiment.weights.unanswered
}
