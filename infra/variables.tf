variable "project" {
  description = "ID of an existing project with billing; everything is made in it."
  type        = string

  validation {
    condition     = can(regex("^[a-z][a-z0-9-]{4,28}[a-z0-9]$", var.project))
    error_message = "A project's ID has 6 to 30 lower-case letters, digits and hyphens, and starts with a letter. It is not the project's number or title."
  }
}

variable "location" {
  description = "Region of everything. All accelerators of `python -m pipeline plan` are in us-central1."
  type        = string
  default     = "us-central1"

  validation {
    # Vertex AI does not train on buckets of several regions.
    condition     = can(regex("^[a-z]+-[a-z]+[0-9]+$", var.location))
    error_message = "Give one region, such as us-central1: neither a zone (us-central1-a) nor several regions (us)."
  }
}

variable "further_location" {
  description = "Another region, in which runs go on if the first has no machines; empty for none."
  type        = string
  default     = ""

  validation {
    condition     = var.further_location == "" || can(regex("^[a-z]+-[a-z]+[0-9]+$", var.further_location))
    error_message = "Give one region, such as europe-west4: neither a zone (europe-west4-a) nor several regions (eu)."
  }
}

variable "name" {
  description = "What the names of buckets, registries and accounts begin with."
  type        = string
  default     = "msinet"

  validation {
    # The longest name made of it is an account's, NAME-pipeline, of 30 characters at most.
    condition     = can(regex("^[a-z][a-z0-9-]{1,18}[a-z0-9]$", var.name))
    error_message = "Use 3 to 20 lower-case letters, digits and hyphens, starting with a letter."
  }
}

variable "deployers" {
  description = "Who may act as the account that deploys, as user:ADDRESS, group:ADDRESS or serviceAccount:ADDRESS; may be empty."
  type        = set(string)
  default     = []

  validation {
    condition     = alltrue([for each in var.deployers : can(regex("^(user|group|serviceAccount):[^@ ]+@[^@ ]+$", each))])
    error_message = "Write each as user:ADDRESS, group:ADDRESS or serviceAccount:ADDRESS; allUsers and the like are refused."
  }
}

variable "image_repository" {
  description = "Repository of images in another project, as LOCATION-docker.pkg.dev/PROJECT/REPOSITORY; empty for the one that is made here."
  type        = string
  default     = ""

  validation {
    condition     = var.image_repository == "" || can(regex("^[a-z0-9-]+-docker[.]pkg[.]dev/[^/]+/[^/]+$", var.image_repository))
    error_message = "Give LOCATION-docker.pkg.dev/PROJECT/REPOSITORY, without the name of an image."
  }
}

variable "tensorboard" {
  description = "Whether to make a Vertex AI TensorBoard for the curves of trainings."
  type        = bool
  default     = false
}

variable "runs_kept_days" {
  description = "Days after which the files of a run are deleted, prepared data among them; 0 keeps them. Registered models stay."
  type        = number
  default     = 0

  validation {
    # Vertex AI's cache does not know that files are gone: a cached step would hand on what is no longer there.
    condition     = var.runs_kept_days == 0 || (var.runs_kept_days >= 30 && floor(var.runs_kept_days) == var.runs_kept_days)
    error_message = "Give 0, or at least 30 whole days: a run that takes its data from the cache fails once they are deleted, until one runs with caching off."
  }
}

variable "delete_contents" {
  description = "Whether `terraform destroy` may delete buckets that still hold files."
  type        = bool
  default     = false
}

variable "retrain_template" {
  description = "Address of the published template to run when an object named _SUCCESS arrives in the data's bucket, as `python -m pipeline publish` prints it; empty for none."
  type        = string
  default     = ""

  validation {
    # Vertex AI answers a tag with error 500, at each event.
    condition     = var.retrain_template == "" || can(regex("^https://[a-z0-9-]+-kfp[.]pkg[.]dev/[^/]+/[^/]+/[^/]+/sha256:[0-9a-f]{64}$", var.retrain_template))
    error_message = "Give the address that `python -m pipeline publish` prints, with a digest and not a tag: https://LOCATION-kfp.pkg.dev/PROJECT/REPOSITORY/NAME/sha256:DIGEST."
  }
}

variable "retrain_parameters" {
  description = "Fields of the form of the runs that new data start, such as { finetune_dataset = \"custom\" }."
  type        = any
  default     = {}
}

variable "retrain_settings" {
  description = "Other parameters of the runs that new data start, such as { finetune_epochs = 5 }."
  type        = any
  default     = {}
}

variable "release_repository" {
  description = "Repository of Cloud Build whose tags v... release: projects/P/locations/L/connections/C/repositories/R; none if empty."
  type        = string
  default     = ""
}
