"""Maps of images with a trained model: sizes, regions, colours, files. Web pages and designs are in `studio`."""

from trainer.doors import opened

__all__ = [
    "CHANGE",  # the colours of a change
    "HEAT",  # the colours of a map
    "SCREENS",  # the kinds of screen, and how high each is
    "WHOLE",  # stands for an image that is seen at once
    "ImageResult",  # the result of one image
    "Input",  # an image that is to be predicted
    "Maps",  # predicts many images and writes their maps
    "Measure",  # what is measured of a region
    "PredictConfig",  # the settings of predictions
    "Predictor",  # a trained network that predicts maps
    "Prepared",  # an image as the network's inputs
    "Region",  # a named rectangle of an image
    "SaliencyMap",  # a map that knows its screens
    "blend",  # a map in heat colours over its image in grey
    "blend_change",  # a change of two maps over an image
    "draw_grey",  # a map as grey
    "drawing_rules",  # what a browser needs to cut and draw maps as Python does
    "find_inputs",  # the images that names lead to
    "floor_of",  # the share of a region without its content
    "measure_regions",  # the share of each region
    "parse_regions",  # regions as flags name them
    "predict_images",  # the results of many images, one after another
    "read_regions",  # regions of a file
    "screens_of",  # the screens of a map
]
__getattr__ = opened(__name__, __file__)
