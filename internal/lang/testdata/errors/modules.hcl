module "registry" { source = "hashicorp/consul/aws" }

module "git" {
  source  = "git::https://example.com/x.git"
  version = "1.0"
}

module "absolute" { source = "/etc" }

module "computed" { source = var.where }

module "missing" { source = "./modules/sight" }

module "empty" { source = "./modules/empty" }

module "loop" { source = "./modules/loop" }

module "nothing" {}

module "site" {
  source  = "./modules/site"
  backend = 2
  version = "1.0"
}

module "two" {
  source = "./modules/site"
  count  = 2
  prefix = backend.nss[0].address
}

module "good" {
  source = "./modules/site"
  prefix = "10.0.0.0/24"
}

module "good" {
  source = "./modules/site"
  prefix = "10.0.0.0/24"
}

client "c" {
  nic { network = module.two.network }
}

client "d" {
  nic { network = module.good.networks }
}

client "e" {
  count = length(module.goods.backends)
  nic { network = module.good[0].network }
}

client "f" {
  nic { network = module }
}

client "g" {
  depends_on = [module.good, module.good.network]
  nic { network = module.good.network }
}
