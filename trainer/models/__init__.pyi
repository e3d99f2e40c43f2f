from .answering import Answering as Answering
from .author import AUTHOR_WEIGHTS as AUTHOR_WEIGHTS, is_author_weights as is_author_weights
from .exports import ModelExport as ModelExport
from .find import choose_model as choose_model, find_model as find_model, find_opponent as find_opponent
from .model_names import (
    CHALLENGER as CHALLENGER,
    DEFAULT as DEFAULT,
    MODEL_NAME as MODEL_NAME,
    NO_FILE as NO_FILE,
    PRETRAINED as PRETRAINED,
    REGISTRY as REGISTRY,
)
from .provenance import Provenance as Provenance
from .registry_layout import (
    ALIASES as ALIASES,
    PRETRAINED_VERSION as PRETRAINED_VERSION,
    VERSION as VERSION,
    number_of as number_of,
    version_numbers as version_numbers,
)
from .weight_sources import WeightSource as WeightSource
