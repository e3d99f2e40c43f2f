resource "google_artifact_registry_repository" "images" {
  repository_id = var.name
  location      = var.location
  format        = "DOCKER"
  description   = "Images of pipeline tasks and training jobs"

  # Images that a tag has left; templates name images by tag.
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

resource "google_artifact_registry_repository" "templates" {
  repository_id = "${var.name}-templates"
  location      = var.location
  format        = "KFP"
  description   = "Compiled pipelines"

  depends_on = [google_project_service.api]
}
