from .run import TASK_ENVIRONMENT as TASK_ENVIRONMENT, execute_run as execute_run, locked_run as locked_run
from .run_folder import RUNS as RUNS, describe_run as describe_run, prepare_run as prepare_run
