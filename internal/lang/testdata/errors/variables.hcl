variable "required" {}

variable "iterations" {
  type    = number
  default = 0
  validation {
    condition     = var.iterations > 0
    error_message = "At least one iteration, not ${var.iterations}."
  }
  validation {
    condition     = network.lan.cidr == ""
    error_message = "x"
  }
}

variable "shape" {
  type    = object({ n = number, name = optional(string, "x") })
  default = { n = "three" }
}

variable "secret" {
  default   = "s3cret"
  sensitive = true
}

variable "list" {
  default = ["a", null]
}

network "lan" { cidr = "198.18.0.0/24" }

client "c" {
  for_each = toset([var.secret])
  nic { network = network.lan }
}

client "d" {
  count = var.secret
  nic { network = network.lan }
}

output "leak" {
  value = "it is ${var.secret}"
}
