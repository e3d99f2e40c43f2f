resource "google_artifact_registry_repository" "images" {
  repository_id = var.name
  location      = var.location
  format        = "DOCKER"
  description   = "Images of pipeline tasks and training jobs"

  # Images without a tag. Templates name images by tag.
  cleanup_policies {
    id     = "untagged"
    action = "DELETE"
    condition {
      tag_state  = "UNTAGGED"
      older_than = "2592000s"
    }
  }

  # Half a year. A schedule needs the images of its own tag: build anew and apply its file before then.
  cleanup_policies {
    id     = "old"
    action = "DELETE"
    condition {
      tag_state  = "ANY"
      older_than = "15552000s"
    }
  }

  cleanup_policies {
    id     = "recent"
    action = "KEEP"
    most_recent_versions {
      keep_count = 20
    }
  }

  depends_on = [google_project_service.api]
}

# === Images of another project, if `image_repository` names it ===

locals {
  own_images       = "${var.location}-docker.pkg.dev/${var.project}/${google_artifact_registry_repository.images.repository_id}"
  image_repository = var.image_repository == "" ? local.own_images : var.image_repository
  # Location, project and name of the repository.
  shared_images = [for each in compact([var.image_repository]) : regex("^(.+)-docker[.]pkg[.]dev/(.+)/(.+)$", each)]
}

data "google_project" "own" {
  count = length(local.shared_images)

  project_id = var.project
  depends_on = [google_project_service.api]
}

# Whichever account a run has, Vertex AI's own agent pulls its images. It needs no role for images of its own project.
resource "google_artifact_registry_repository_iam_member" "agent_images" {
  count = length(local.shared_images)

  location   = local.shared_images[count.index][0]
  project    = local.shared_images[count.index][1]
  repository = local.shared_images[count.index][2]
  role       = "roles/artifactregistry.reader" # pulls the images
  member     = "serviceAccount:service-${data.google_project.own[count.index].number}@gcp-sa-aiplatform.iam.gserviceaccount.com"
}

resource "google_artifact_registry_repository_iam_member" "pipeline_shared_images" {
  count = length(local.shared_images)

  location   = local.shared_images[count.index][0]
  project    = local.shared_images[count.index][1]
  repository = local.shared_images[count.index][2]
  role       = "roles/artifactregistry.reader" # asks whether the images are there
  member     = local.pipeline
}

resource "google_artifact_registry_repository" "templates" {
  repository_id = "${var.name}-templates"
  location      = var.location
  format        = "KFP"
  description   = "Compiled pipelines"

  depends_on = [google_project_service.api]
}
