from .collect import collect_job as collect_job
from .job import BatchConfig as BatchConfig, plan_job as plan_job
from .listing import Sizes as Sizes, measure_source as measure_source
from .work import predict_shard as predict_shard, predict_task as predict_task
