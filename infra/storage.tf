# Sources of training data: written by people, only read by the pipeline.
resource "google_storage_bucket" "data" {
  name                        = "${var.project}-${var.name}-data"
  location                    = var.location
  uniform_bucket_level_access = true
  public_access_prevention    = "enforced"
  force_destroy               = var.delete_contents

  versioning {
    enabled = false
  }

  lifecycle_rule {
    condition {
      age = 7
    }
    action {
      type = "AbortIncompleteMultipartUpload"
    }
  }

  depends_on = [google_project_service.api]
}

# Registered versions. What is deleted here by mistake can be restored for 30 days.
resource "google_storage_bucket" "models" {
  name                        = "${var.project}-${var.name}-models"
  location                    = var.location
  uniform_bucket_level_access = true
  public_access_prevention    = "enforced"
  force_destroy               = var.delete_contents

  versioning {
    enabled = false
  }

  soft_delete_policy {
    retention_duration_seconds = 2592000
  }

  depends_on = [google_project_service.api]
}

# What the pipeline writes besides: runs/ (a folder for each run), builds/ (sources of images).
resource "google_storage_bucket" "runs" {
  name                        = "${var.project}-${var.name}-runs"
  location                    = var.location
  uniform_bucket_level_access = true
  public_access_prevention    = "enforced"
  force_destroy               = var.delete_contents

  versioning {
    enabled = false
  }

  # Each checkpoint replaces an older one, and by default the bucket would keep and bill each for seven days more.
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
      age            = 7
      matches_prefix = ["builds/"]
    }
    action {
      type = "Delete"
    }
  }

  # Intermediates are read again only while their source does not change: cheaper to keep, dearer to read.
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
