from .benchmark import Benchmark as Benchmark, BenchmarkJob as BenchmarkJob, measure_on_vertex as measure_on_vertex
from .doctor import ExaminedRun as ExaminedRun
from .jobs import Jobs as Jobs, custom_job as custom_job
from .runs import (
    SentRun as SentRun,
    latest_runs as latest_runs,
    lines_of_run as lines_of_run,
    parameter_lines as parameter_lines,
)
from .schedule import (
    Schedule as Schedule,
    SchedulePlan as SchedulePlan,
    schedules_of_same_model as schedules_of_same_model,
)
from .schedule_files import (
    EXAMPLE as EXAMPLE,
    ScheduleChange as ScheduleChange,
    compare_schedules as compare_schedules,
    example_of_schedule as example_of_schedule,
    read_schedules as read_schedules,
)
from .submit import Submission as Submission
