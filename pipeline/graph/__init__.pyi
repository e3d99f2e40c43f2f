from .accelerator_table import (
    check_region as check_region,
    compare_accelerators as compare_accelerators,
    known_regions as known_regions,
)
from .compiled import (
    Template as Template,
    pipeline_for as pipeline_for,
    publish as publish,
    write_components as write_components,
    write_pipeline as write_pipeline,
    write_prediction as write_prediction,
    write_preparation as write_preparation,
)
from .environment import (
    COMMON_IMAGES as COMMON_IMAGES,
    IMAGE_KINDS as IMAGE_KINDS,
    PIPELINE_NAME as PIPELINE_NAME,
    Environment as Environment,
    layered_values as layered_values,
    load_environment as load_environment,
    load_environments as load_environments,
)
from .prediction import Prediction as Prediction
from .preparation import Preparation as Preparation
