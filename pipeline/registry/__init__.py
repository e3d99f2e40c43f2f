"""Versions of a model, in a folder, in a bucket or in the Vertex AI Model Registry."""
