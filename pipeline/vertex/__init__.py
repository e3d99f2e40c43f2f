"""Runs, schedules, quota and `doctor` on Vertex AI, from outside. The tasks of a run are in `components`."""
