module "a" {
  source   = "./modules/values"
  prefix   = "10.0.0.0/24"
  backends = "many"
  peer     = ""
}

module "b" {
  source   = "./modules/values"
  for_each = toset(["x", "y"])
  prefix   = "198.18.${each.key == "x" ? 0 : 1}.0/24"
  backends = null
  peer     = director.lb.address
}

director "lb" {
  nic { network = module.a.backends[0] }
}

output "o" { value = module.b["z"].secret }
