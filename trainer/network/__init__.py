"""The network: layers, graphs, preprocessing, calibration, a model's own folder, foreign weights.

Imports the ground alone.
"""

from trainer.doors import opened

__all__ = [
    "ASSETS_EXTRA",  # the folder in a version's SavedModel with the trainer's model
    "DEFAULT_NETWORK",  # the network of new trainings
    "EVALUATION",  # the file name of an evaluation's scores
    "LEFT_OUT",  # the file name of the scores of images without one observer
    "MODEL_WEIGHTS",  # the file name of a model's weights
    "PAGE",  # the kind of images that are web pages
    "PER_IMAGE",  # the file name of an evaluation's scores of each image
    "PICTURE",  # the kind of images that are not pages
    "Architecture",  # what a training asks of a network: shapes, graph, encoder, cost
    "Calibration",  # the seven numbers that spread a model's maps as observers do
    "Export",  # a model written as a SavedModel, ONNX file or compact folder
    "Frame",  # a network's input: fits images and maps in, and back
    "Imported",  # what an import of foreign weights gives
    "Inference",  # runs a model's network on a CPU with OpenVINO
    "LocalWeights",  # weights as local files: form, fingerprint, reading
    "ModelConfig",  # the content of a model's `config.json`
    "ModelFolder",  # a model's folder: the paths of its files and their contents
    "NamedWeights",  # weights by name among the files of an archive, bucket or folder
    "Positions",  # where an image's rows and columns lie, for calibrations
    "assign_weights",  # assigns files of any form, or arrays, to a Keras model
    "build_network",  # builds a network in Keras
    "trained_network",  # a Keras network that predicts as its configuration says
    "write_model",  # writes weights, SavedModel and configuration
]
__getattr__ = opened(__name__, __file__)
