"""Runs, schedules, quota and `doctor` on Vertex AI, from outside; the tasks of a run are in `components`."""
