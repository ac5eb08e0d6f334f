variable "prefix" {
  type = string
  validation {
    condition     = startswith(var.prefix, "198.18.")
    error_message = "Only 198.18.0.0/15."
  }
}

variable "backends" {
  type    = number
  default = 1
}

variable "count" { default = 1 }

lab "inner" {}

network "lan" { cidr = var.prefix }

backend "ns" {
  count  = var.backends
  memory = var.memry
  nic { network = network.lan }
}

output "network" { value = network.lan }
output "backends" { value = backend.ns }
output "secret" { value = sensitive("x") }
