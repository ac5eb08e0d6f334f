variable "prefix" {
  type = string
  validation {
    condition     = startswith(var.prefix, "198.18.")
    error_message = "Only 198.18.0.0/15, not ${var.prefix}."
  }
}

variable "backends" {
  type     = number
  nullable = false
  default  = 1
}

variable "peer" {}

network "lan" { cidr = var.prefix }

backend "ns" {
  count  = var.backends
  memory = "1MiB"
  nic { network = network.lan }
}

client "c" {
  count = var.peer == "" ? 0 : 1
  nic { network = network.lan }
}

locals { twice = module.inner.out }

module "inner" {
  source = "./inner"
  x      = local.twice
}

output "secret" { value = sensitive("x") }
output "backends" { value = backend.ns }
