from .architecture import Architecture as Architecture
from .calibration import Calibration as Calibration
from .export import Export as Export
from .importing import Imported as Imported
from .inference import Inference as Inference
from .keras_networks import build_network as build_network
from .load import assign_weights as assign_weights, trained_network as trained_network
from .model_folder import (
    ASSETS_EXTRA as ASSETS_EXTRA,
    EVALUATION as EVALUATION,
    LEFT_OUT as LEFT_OUT,
    MODEL_WEIGHTS as MODEL_WEIGHTS,
    PAGE as PAGE,
    PER_IMAGE as PER_IMAGE,
    PICTURE as PICTURE,
    ModelConfig as ModelConfig,
    ModelFolder as ModelFolder,
)
from .networks import DEFAULT_NETWORK as DEFAULT_NETWORK
from .preprocess import Frame as Frame
from .saved_model import write_model as write_model
from .tensorflow_calibration import Positions as Positions
from .weight_files import LocalWeights as LocalWeights, NamedWeights as NamedWeights
