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

  depends_on = [google_project_service.api]
}

resource "google_artifact_registry_repository" "templates" {
  repository_id = "${var.name}-templates"
  location      = var.location
  format        = "KFP"
  description   = "Compiled pipelines"

  depends_on = [google_project_service.api]
}
