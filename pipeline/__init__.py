"""What builds, sends, runs and lists pipelines, on a person's machine: never in a pod, never with TensorFlow."""
