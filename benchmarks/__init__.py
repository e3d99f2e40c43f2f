import trainer  # noqa: F401  before TensorFlow is imported: see there
