"""What the tests of evaluation and its pages share: two networks, two data sets, one evaluation."""

import json
import shutil

import pytest

from tests.browser import chromium
from tests.narrow import narrowed
from tests.trainer import predictable
from trainer.evaluation.evaluate import evaluate_models
from trainer.evaluation.evaluation import PREDICTIONS, Evaluation
from trainer.evaluation.settings import EvaluateConfig
from trainer.io.files import write_json
from trainer.network.model_folder import EVALUATION, MODEL_CONFIG, PER_IMAGE
from trainer.prediction.predictor import Predictor


@pytest.fixture(scope="module")
def narrow():
    """All networks of a module are narrow, and so are the models that it writes and reads.

    The fixtures of a session may be made before or after: they say themselves which network they take.
    """
    with narrowed():
        yield


@pytest.fixture(scope="module")
def browser():
    """A headless Chromium; skips the test where none can be started."""
    with chromium() as browser:
        yield browser


@pytest.fixture(scope="session")
def good():
    """The network whose predictions are the ground truth."""
    return predictable.network(1)


@pytest.fixture(scope="session")
def models(good, tmp_path_factory):
    """Folders of that network and of one that knows nothing about it."""
    folder = tmp_path_factory.mktemp("models")
    other = predictable.network(2)
    yield {
        "good": predictable.write_model(folder / "good", good),
        "bad": predictable.write_model(folder / "bad", other),
    }
    shutil.rmtree(folder)


@pytest.fixture(scope="session")
def datasets(good, tmp_path_factory):
    folder = tmp_path_factory.mktemp("datasets")
    return {
        "salicon": predictable.write_dataset(folder / "salicon", good, n_fixations=60, n_observers=5),
        "fixationadd1000": predictable.write_dataset(folder / "add", good, n_valid=4, n_fixations=0),
    }


@pytest.fixture(scope="session")
def evaluated(models, datasets, tmp_path_factory):
    """The folder of one evaluation of `good`, with `bad` as the current default, on both data sets."""
    output = tmp_path_factory.mktemp("evaluation") / "evaluation"
    with narrowed():
        evaluate_models(EvaluateConfig(), models["good"], datasets, output, champion=models["bad"])
    return output


@pytest.fixture
def evaluation(evaluated):
    """The evaluation in that folder; a test may change it."""

    def refuse(constant):
        raise AssertionError(f"{constant} is not JSON")

    json.loads((evaluated / EVALUATION).read_text(), parse_constant=refuse)
    return Evaluation.read(evaluated, "")


@pytest.fixture
def store(evaluated):
    """A function that writes another evaluation, and the same scores and pictures, to a folder."""

    def store(folder, evaluation):
        evaluation.write(folder)
        for name in (PER_IMAGE, PREDICTIONS):
            (folder / name).symlink_to(evaluated / name)
        return folder

    return store


@pytest.fixture(scope="session")
def narrow_model(tmp_path_factory):
    """The folder of a model for images of 64 x 80 pixels, for modules that are `narrow`."""
    folder = predictable.write_model(tmp_path_factory.mktemp("narrow") / "model", predictable.network(4))
    write_json(folder / MODEL_CONFIG, {"image_size": (64, 80)})
    return folder


@pytest.fixture(scope="session")
def predictor(narrow_model):
    with narrowed():
        return Predictor(narrow_model)
