"""Vertex AI and the other APIs of Google Cloud: requests to them, and a run as the API describes it."""
