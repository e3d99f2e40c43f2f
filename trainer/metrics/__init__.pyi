from .metric_table import (
    BASELINE as BASELINE,
    BASELINE_METRICS as BASELINE_METRICS,
    DECIDING as DECIDING,
    DENSITY as DENSITY,
    FIXATIONS as FIXATIONS,
    LEAD as LEAD,
    METRICS as METRICS,
    OTHER_COUNTS as OTHER_COUNTS,
    metrics_that_need as metrics_that_need,
)
from .metrics import (
    OF_UNIFORM as OF_UNIFORM,
    Values as Values,
    correlation as correlation,
    metric_value as metric_value,
    metric_values as metric_values,
)
from .points import Points as Points, blur as blur, count_points as count_points, scale_points as scale_points
from .score_map import score as score
