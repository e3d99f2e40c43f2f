"""Runs and schedules on Vertex AI."""
