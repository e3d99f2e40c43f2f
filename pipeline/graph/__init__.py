"""The pipeline itself: its parameters, environments, tasks and compiled files."""
