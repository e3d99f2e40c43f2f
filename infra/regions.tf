# Off by default: a bucket in another region, in which runs go on if the first region has no machines. All else stays in
# the first region: images, data, templates, and the registry with its versions.

locals {
  further = var.further_location == "" ? 0 : 1
}

resource "google_storage_bucket" "further_runs" {
  count = local.further

  name                        = "${var.project}-${var.name}-runs-${var.further_location}"
  location                    = var.further_location
  uniform_bucket_level_access = true
  public_access_prevention    = "enforced"
  force_destroy               = var.delete_contents

  versioning {
    enabled = false
  }

  # As in the bucket of the first region (storage.tf).
  soft_delete_policy {
    retention_duration_seconds = 0
  }

  lifecycle_rule {
    condition {
      age = 7
    }
    action {
      type = "AbortIncompleteMultipartUpload"
    }
  }

  lifecycle_rule {
    condition {
      age                   = 30
      matches_prefix        = ["runs/"]
      matches_storage_class = ["STANDARD"]
    }
    action {
      type          = "SetStorageClass"
      storage_class = "NEARLINE"
    }
  }

  dynamic "lifecycle_rule" {
    for_each = var.runs_kept_days > 0 ? [var.runs_kept_days] : []
    content {
      condition {
        age            = lifecycle_rule.value
        matches_prefix = ["runs/"]
      }
      action {
        type = "Delete"
      }
    }
  }

  depends_on = [google_project_service.api]
}

resource "google_storage_bucket_iam_member" "pipeline_writes_further_runs" {
  count = local.further

  bucket = google_storage_bucket.further_runs[0].name
  role   = "roles/storage.objectUser" # reads, writes and replaces artifacts and checkpoints
  member = local.pipeline
}

resource "google_storage_bucket_iam_member" "pipeline_sees_further_runs" {
  count = local.further

  bucket = google_storage_bucket.further_runs[0].name
  role   = "roles/storage.bucketViewer" # asks for the bucket itself, as Vertex AI does before a run
  member = local.pipeline
}

resource "google_storage_bucket_iam_member" "deployer_writes_further_runs" {
  count = local.further

  bucket = google_storage_bucket.further_runs[0].name
  role   = "roles/storage.objectUser" # reads what runs wrote
  member = local.deployer
}

resource "google_storage_bucket_iam_member" "deployer_sees_further_runs" {
  count = local.further

  bucket = google_storage_bucket.further_runs[0].name
  role   = "roles/storage.bucketViewer" # checks the bucket and its region before it submits
  member = local.deployer
}

output "further_environment" {
  description = "The environment of the other region, as a file for configs/; empty without one."
  value       = var.further_location == "" ? "" : <<-TOML
    # Written by `terraform output -raw further_environment`.
    target = "vertex"
    project = "${var.project}"
    location = "${var.further_location}"
    bucket = "gs://${google_storage_bucket.further_runs[0].name}"
    models = "gs://${google_storage_bucket.models.name}"
    service_account = "${google_service_account.pipeline.email}"
    image_repository = "${local.image_repository}"
    image_tag = "v1"
    build_service_account = "${google_service_account.deployer.email}"
    template_repository = "https://${var.location}-kfp.pkg.dev/${var.project}/${google_artifact_registry_repository.templates.repository_id}"

    [labels]
    application = "${var.name}"

    [parameters]
    # One registry for both regions: a new model is compared with the default there.
    registry = "vertex://${var.project}/${var.location}?serving=${local.image_repository}/msinet-serving:v1&staging=gs://${google_storage_bucket.models.name}"
    accelerator = "l4"
    base_model_uri = "pretrained"
    base_batch_size = 0
    finetune_batch_size = 0
  TOML
}
