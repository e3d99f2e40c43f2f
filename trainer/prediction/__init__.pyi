from .floors import floor_of as floor_of
from .heat import (
    CHANGE as CHANGE,
    HEAT as HEAT,
    blend as blend,
    blend_change as blend_change,
    draw_grey as draw_grey,
)
from .inputs import Input as Input, find_inputs as find_inputs
from .predict import ImageResult as ImageResult, Maps as Maps, predict_images as predict_images
from .predictor import Predictor as Predictor, Prepared as Prepared
from .regions import (
    Measure as Measure,
    Region as Region,
    measure_regions as measure_regions,
    parse_regions as parse_regions,
    read_regions as read_regions,
)
from .rules import drawing_rules as drawing_rules
from .saliency_map import SaliencyMap as SaliencyMap, screens_of as screens_of
from .screens import SCREENS as SCREENS, WHOLE as WHOLE
from .settings import PredictConfig as PredictConfig
