from .collect import collect_job as collect_job
from .job import plan_job as plan_job
from .listing import measure_source as measure_source
from .settings import MOST_TASKS as MOST_TASKS, BatchConfig as BatchConfig, Sizes as Sizes
from .work import predict_shard as predict_shard, predict_task as predict_task
