# Off by default, since Google bills what it stores: a Vertex AI TensorBoard for the curves of trainings. The pipeline's
# account may write to it by its role roles/aiplatform.user.

resource "google_vertex_ai_tensorboard" "trainings" {
  count = var.tensorboard ? 1 : 0

  display_name = "${var.name}-trainings"
  description  = "Curves of trainings"
  region       = var.location

  depends_on = [google_project_service.api]
}
