"""Runs, schedules, quota and `doctor` on Vertex AI, from outside. The tasks of a run are in `components`."""

from trainer.doors import opened

__all__ = [
    "EXAMPLE",  # the name of a schedule's file to copy
    "Benchmark",  # a training to measure for some steps
    "BenchmarkJob",  # a benchmark that runs on Vertex AI
    "ExaminedRun",  # a run that `doctor` examines, and its environment
    "Jobs",  # starts custom jobs and follows them
    "Schedule",  # a schedule on Vertex AI
    "ScheduleChange",  # what is to be done about one schedule
    "SchedulePlan",  # a schedule as its file says
    "SentRun",  # a run that was sent to Vertex AI
    "Submission",  # a request for a run before it is sent
    "compare_schedules",  # the changes from schedules to their files
    "custom_job",  # the request for a custom job
    "example_of_schedule",  # what that file would make
    "latest_runs",  # the latest runs of a pipeline
    "lines_of_run",  # a line for each parameter and task of a run
    "measure_on_vertex",  # measures training steps on Vertex AI
    "parameter_lines",  # a line for each parameter
    "read_schedules",  # reads the files of schedules
    "schedules_of_same_model",  # the other schedules that train the same model
]
__getattr__ = opened(__name__, __file__)
