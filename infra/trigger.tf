# Off by default: a run when new data has arrived. An object named _SUCCESS in the bucket of the data starts a workflow,
# which starts a run of a published template. The run ends at once if there is nothing new. It is one object, because an
# upload of a thousand files has a thousand events. Each event starts the workflow for one step, since direct events of
# Cloud Storage have no filter for names. 5,000 steps a month are free, and 1,000 more cost 0.01 USD. Audit logs have
# such a filter, but they would record, and bill, every object that a run writes.

locals {
  retrains     = var.retrain_template == "" ? 0 : 1
  trigger_apis = var.retrain_template == "" ? [] : ["eventarc", "pubsub", "workflows"]
  trigger_roles = var.retrain_template == "" ? [] : [
    "roles/eventarc.eventReceiver", # receives the events of the bucket
    "roles/workflows.invoker",      # starts the workflow
    "roles/aiplatform.user",        # submits the run
    "roles/logging.logWriter",      # writes why a run could not be submitted
  ]
}

resource "google_project_service" "trigger" {
  for_each = toset(local.trigger_apis)

  service            = "${each.key}.googleapis.com"
  disable_on_destroy = false
}

resource "google_service_account" "trigger" {
  count = local.retrains

  account_id   = "${var.name}-trigger"
  display_name = "Starts a run when new data has arrived"

  depends_on = [google_project_service.api]
}

resource "google_project_iam_member" "trigger" {
  for_each = toset(local.trigger_roles)

  project = var.project
  role    = each.value # explained in the list above
  member  = "serviceAccount:${google_service_account.trigger[0].email}"
}

resource "google_service_account_iam_member" "trigger_as_pipeline" {
  count = local.retrains

  service_account_id = google_service_account.pipeline.name
  role               = "roles/iam.serviceAccountUser" # submits runs that run as the pipeline's account
  member             = "serviceAccount:${google_service_account.trigger[0].email}"
}

resource "google_artifact_registry_repository_iam_member" "trigger_templates" {
  count = local.retrains

  location   = google_artifact_registry_repository.templates.location
  repository = google_artifact_registry_repository.templates.name
  role       = "roles/artifactregistry.reader" # reads the template
  member     = "serviceAccount:${google_service_account.trigger[0].email}"
}

# Cloud Storage's own account, which publishes the events of buckets.
data "google_storage_project_service_account" "storage" {
  count = local.retrains

  depends_on = [google_project_service.trigger]
}

resource "google_project_iam_member" "storage_publishes" {
  count = local.retrains

  project = var.project
  role    = "roles/pubsub.publisher" # hands the events of the bucket to Eventarc
  member  = "serviceAccount:${data.google_storage_project_service_account.storage[0].email_address}"
}

resource "google_workflows_workflow" "retrain" {
  count = local.retrains

  name                = "${var.name}-retrain"
  region              = var.location
  description         = "Starts a run when new data has arrived"
  service_account     = google_service_account.trigger[0].id
  deletion_protection = false
  source_contents = yamlencode({
    main = {
      params = ["event"]
      steps = [
        { check = {
          switch = [{ condition = "$${not(text.match_regex(event.data.name, \"(^|/)_SUCCESS$\"))}", return = "ignored" }]
        } },
        { submit = {
          call = "http.post"
          args = {
            url  = "https://${var.location}-aiplatform.googleapis.com/v1/projects/${var.project}/locations/${var.location}/pipelineJobs"
            auth = { type = "OAuth2" }
            body = {
              displayName    = "${var.name}-new-data"
              labels         = { managed_by = "msinet-pipelines" }
              templateUri    = var.retrain_template
              serviceAccount = google_service_account.pipeline.email
              runtimeConfig = {
                gcsOutputDirectory = "gs://${google_storage_bucket.runs.name}/runs"
                parameterValues    = merge(var.retrain_parameters, { settings = merge({ skip_unchanged = true }, var.retrain_settings) })
              }
            }
          }
          result = "created"
        } },
        { end = { return = "$${created.body.name}" } },
      ]
    }
  })

  depends_on = [google_project_service.trigger]
}

resource "google_eventarc_trigger" "retrain" {
  count = local.retrains

  name            = "${var.name}-new-data"
  location        = var.location
  service_account = google_service_account.trigger[0].id

  matching_criteria {
    attribute = "type"
    value     = "google.cloud.storage.object.v1.finalized"
  }
  matching_criteria {
    attribute = "bucket"
    value     = google_storage_bucket.data.name
  }
  destination {
    workflow = google_workflows_workflow.retrain[0].id
  }

  depends_on = [google_project_iam_member.trigger, google_project_iam_member.storage_publishes]
}
