variable "x" {}
output "out" { value = var.x }
