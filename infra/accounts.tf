# Two accounts: one that runs what is deployed, one that deploys. Neither has a key, and neither can change IAM.

resource "google_service_account" "pipeline" {
  account_id   = "${var.name}-pipeline"
  display_name = "Runs the pipeline's tasks and training jobs"

  depends_on = [google_project_service.api]
}

resource "google_service_account" "deployer" {
  account_id   = "${var.name}-deployer"
  display_name = "Builds images, publishes templates, submits and schedules runs"

  depends_on = [google_project_service.api]
}

locals {
  pipeline = "serviceAccount:${google_service_account.pipeline.email}"
  deployer = "serviceAccount:${google_service_account.deployer.email}"

  deployer_roles = [
    "roles/aiplatform.user",                   # submits, cancels and schedules runs, and sees how they end
    "roles/cloudbuild.builds.editor",          # starts builds of the images
    "roles/logging.logWriter",                 # writes the logs of the builds that run as it
    "roles/logging.viewer",                    # reads what the jobs of a benchmark have measured
    "roles/serviceusage.serviceUsageConsumer", # calls the APIs on the project's quota
  ]
}

# === The account that runs the pipeline ===

resource "google_project_iam_member" "pipeline" {
  project = var.project
  role    = "roles/aiplatform.user" # starts training jobs, writes metadata, registers model versions
  member  = local.pipeline
}

resource "google_project_iam_member" "pipeline_writes_logs" {
  project = var.project
  role    = "roles/logging.logWriter" # writes what its tasks and training jobs print, errors among it
  member  = local.pipeline
}

resource "google_service_account_iam_member" "pipeline_as_itself" {
  service_account_id = google_service_account.pipeline.name
  role               = "roles/iam.serviceAccountUser" # gives the training jobs that it starts its own account
  member             = local.pipeline
}

resource "google_storage_bucket_iam_member" "pipeline_reads_data" {
  bucket = google_storage_bucket.data.name
  role   = "roles/storage.objectViewer" # lists and reads the sources of the data
  member = local.pipeline
}

resource "google_storage_bucket_iam_member" "pipeline_writes_runs" {
  bucket = google_storage_bucket.runs.name
  role   = "roles/storage.objectUser" # reads, writes and replaces artifacts, checkpoints and models
  member = local.pipeline
}

resource "google_storage_bucket_iam_member" "pipeline_sees_runs" {
  bucket = google_storage_bucket.runs.name
  role   = "roles/storage.bucketViewer" # asks for the bucket itself, as Vertex AI does before a run
  member = local.pipeline
}

resource "google_storage_bucket_iam_member" "pipeline_writes_models" {
  bucket = google_storage_bucket.models.name
  role   = "roles/storage.objectUser" # writes versions, reads the default to compare with it
  member = local.pipeline
}

resource "google_storage_bucket_iam_member" "pipeline_sees_models" {
  bucket = google_storage_bucket.models.name
  role   = "roles/storage.bucketViewer" # asks for the bucket itself before it writes
  member = local.pipeline
}

resource "google_artifact_registry_repository_iam_member" "pipeline_images" {
  location   = google_artifact_registry_repository.images.location
  repository = google_artifact_registry_repository.images.name
  role       = "roles/artifactregistry.reader" # asks whether the images are there; Vertex AI's own agent pulls them (registries.tf)
  member     = local.pipeline
}

resource "google_artifact_registry_repository_iam_member" "pipeline_templates" {
  location   = google_artifact_registry_repository.templates.location
  repository = google_artifact_registry_repository.templates.name
  role       = "roles/artifactregistry.reader" # reads the template that a run was started from
  member     = local.pipeline
}

# === The account that deploys ===

resource "google_project_iam_member" "deployer" {
  for_each = toset(local.deployer_roles)

  project = var.project
  role    = each.value # explained in the list above
  member  = local.deployer
}

resource "google_service_account_iam_member" "deployer_as_pipeline" {
  service_account_id = google_service_account.pipeline.name
  role               = "roles/iam.serviceAccountUser" # submits runs that run as the pipeline's account
  member             = local.deployer
}

resource "google_service_account_iam_member" "deployer_as_itself" {
  service_account_id = google_service_account.deployer.name
  role               = "roles/iam.serviceAccountUser" # starts builds that run as itself
  member             = local.deployer
}

resource "google_storage_bucket_iam_member" "deployer_writes_runs" {
  bucket = google_storage_bucket.runs.name
  role   = "roles/storage.objectUser" # uploads the sources of builds, reads what runs wrote
  member = local.deployer
}

resource "google_storage_bucket_iam_member" "deployer_sees_runs" {
  bucket = google_storage_bucket.runs.name
  role   = "roles/storage.bucketViewer" # checks the bucket and its region before it submits
  member = local.deployer
}

resource "google_storage_bucket_iam_member" "deployer_writes_models" {
  bucket = google_storage_bucket.models.name
  role   = "roles/storage.objectUser" # reads the scores of versions, removes those that nobody needs
  member = local.deployer
}

resource "google_storage_bucket_iam_member" "deployer_sees_models" {
  bucket = google_storage_bucket.models.name
  role   = "roles/storage.bucketViewer" # checks the bucket and its region before it submits
  member = local.deployer
}

resource "google_artifact_registry_repository_iam_member" "deployer_images" {
  location   = google_artifact_registry_repository.images.location
  repository = google_artifact_registry_repository.images.name
  role       = "roles/artifactregistry.writer" # pushes the images
  member     = local.deployer
}

resource "google_artifact_registry_repository_iam_member" "deployer_templates" {
  location   = google_artifact_registry_repository.templates.location
  repository = google_artifact_registry_repository.templates.name
  role       = "roles/artifactregistry.writer" # publishes templates and moves their tags
  member     = local.deployer
}

# === People who act as it ===

resource "google_service_account_iam_member" "people" {
  for_each = var.deployers

  service_account_id = google_service_account.deployer.name
  role               = "roles/iam.serviceAccountTokenCreator" # acts as the account that deploys, with no key of it
  member             = each.value
}
