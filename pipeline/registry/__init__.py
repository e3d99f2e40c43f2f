"""Versions of a model, in a folder or in the Vertex AI Model Registry."""
