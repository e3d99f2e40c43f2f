"""Versions of a model in a folder, a bucket or Vertex AI, and endpoints. The gate is in `trainer/evaluation`."""
