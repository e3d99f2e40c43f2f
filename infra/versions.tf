# The cloud side of the project: APIs, buckets, registries and accounts. docs/vertex.md says how to use it.
#
# The state is kept in this folder (terraform.tfstate). To share it, add a backend "gcs" block with a bucket of yours.

terraform {
  required_version = ">= 1.5"

  required_providers {
    google = {
      source  = "hashicorp/google"
      version = "~> 7.0"
    }
  }
}

provider "google" {
  project = var.project
  region  = var.location
}
