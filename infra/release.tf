# Off unless release_repository is set: a tag v... in a connected repository builds the images, publishes the template
# and applies the schedules (examples/ci/release.yaml).
resource "google_cloudbuild_trigger" "release" {
  count           = var.release_repository == "" ? 0 : 1
  name            = "${var.name}-release"
  location        = var.location
  filename        = "examples/ci/release.yaml"
  service_account = google_service_account.deployer.id

  repository_event_config {
    repository = var.release_repository
    push {
      tag = "^v"
    }
  }
}
