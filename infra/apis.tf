locals {
  apis = {
    aiplatform           = "pipelines, training jobs, the model registry"
    artifactregistry     = "images and pipeline templates"
    cloudbuild           = "builds the images"
    cloudresourcemanager = "the project's number, which clients look up, and its IAM policy"
    compute              = "the machines of training jobs"
    iam                  = "service accounts"
    iamcredentials       = "acting as the account that deploys"
    logging              = "logs of tasks and builds"
    storage              = "buckets"
  }
}

resource "google_project_service" "api" {
  for_each = local.apis

  service = "${each.key}.googleapis.com"
  # Others in the project may use it: it stays on when this is destroyed.
  disable_on_destroy = false
}
