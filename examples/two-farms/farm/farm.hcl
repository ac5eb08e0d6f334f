# A farm: a director and its backends, which serve one zone.

variable "network" {
  description = "The network that all machines are on: a handle."
}

variable "size" {
  description = "The number of backends."
  type        = number

  validation {
    condition     = var.size > 0
    error_message = "A farm needs a backend."
  }
}

variable "vip" {
  description = "The address of the service."
  type        = string
}

variable "zone" {
  description = "The zone that the backends serve."
  type        = string
}

director "lb" {
  nic { network = var.network }
}

backend "ns" {
  count  = var.size
  serves = [zone.own]
  nic { network = var.network }
}

zone "own" {
  name    = var.zone
  records = [for i in range(20) : { name = "host${i}", type = "A", values = ["192.0.2.${i}"] }]
}

tunnel "lb-ns" {
  from = director.lb
  to   = backend.ns
}

service "dns" {
  director  = director.lb
  vip       = var.vip
  scheduler = "rr"

  real_server {
    backends = backend.ns
    tunnel   = tunnel.lb-ns
  }
}

output "service" { value = service.dns }
output "backends" { value = backend.ns }
