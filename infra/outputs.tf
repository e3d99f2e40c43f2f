output "environment" {
  description = "The environment of this project, as a file for configs/."
  value       = <<-TOML
    # Written by `terraform output -raw environment`.
    target = "vertex"
    project = "${var.project}"
    location = "${var.location}"
    bucket = "gs://${google_storage_bucket.runs.name}"
    models = "gs://${google_storage_bucket.models.name}"
    service_account = "${google_service_account.pipeline.email}"
    image_repository = "${local.image_repository}"
    image_tag = "v1"
    build_service_account = "${google_service_account.deployer.email}"
    template_repository = "https://${var.location}-kfp.pkg.dev/${var.project}/${google_artifact_registry_repository.templates.repository_id}"

    [labels]
    application = "${var.name}"

    # Defaults of the pipeline's parameters, also in the published template.
    [parameters]
    accelerator = "l4"
    # A run fine-tunes this model. An empty one, as base_model_uri= on a command line, trains a base model first.
    base_model_uri = "pretrained"
    # The default of the accelerator.
    base_batch_size = 0
    finetune_batch_size = 0
  TOML
}

output "deployer" {
  description = "E-mail address of the account that deploys."
  value       = google_service_account.deployer.email
}

output "data_bucket" {
  description = "Bucket for the sources of the training data."
  value       = "gs://${google_storage_bucket.data.name}"
}

output "builds" {
  description = "Folder for the sources of the images."
  value       = "gs://${google_storage_bucket.runs.name}/builds"
}

output "image_repository" {
  description = "Registry of the images."
  value       = local.image_repository
}

output "tensorboard" {
  description = "Value of the parameter `tensorboard`; empty without one."
  value       = join("", google_vertex_ai_tensorboard.trainings[*].name)
}
