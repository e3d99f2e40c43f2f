"""The pipeline: what it is, where it runs, and the registry that it fills. Never imports TensorFlow."""
