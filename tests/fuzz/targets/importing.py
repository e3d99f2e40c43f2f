"""Preloaded by the process whose forks import weights: TensorFlow, and a model's folder without its SavedModel.

To write and compare a SavedModel takes most of an import, and does not depend on the weights; `make test` does it.
"""

from trainer.models import conversion, saved_model

__all__ = ["conversion"]

saved_model.write_saved_model = lambda *_: None
