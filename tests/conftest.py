"""Every test starts from a clean environment: nothing of the machine it runs on, no cloud project, no way out."""

import gc
import inspect
import os
import pathlib
import signal
import sys
import traceback

import pytest

from lifecycle.machines import benchmark_results
from trainer.network import inference, model_folder
from trainer.training import host

pytest_plugins = ["tests.gcs", "tests.hooks", "tests.internet", "tests.vertex"]

OTHERS = (
    "AIP_",
    "CLOUD_",
    "GCE_",
    "GCLOUD_",
    "GOOGLE_",
    "KFP_",
    "MSINET_",
    "TPU_",
    "TF_CONFIG",
    "STORAGE_EMULATOR_HOST",
    "STORAGE_USER_PROJECT",
)

HERE = pathlib.Path(__file__).parent
LONG = (
    "pipeline/local/test_run.py",
    "pipeline/local/test_real_data.py",
    "pipeline/sweep/test_local.py",
    "components/test_kubeflow.py",
    "trainer/evaluation/test_evaluate.py",
    "trainer/training/test_distributed.py",
    "test_install.py",
    "test_expressions.py",
    "studio/test_demo_page.py",
    "trainer/training/test_train.py",
    "studio/test_site.py",
    "components/test_components.py",
    "test_example.py",
    "studio/test_designs.py",
    "trainer/training/test_step.py",
    "lifecycle/registry/test_contract.py",
    "trainer/network/test_saved_model.py",
    "lifecycle/registry/test_folder_registry.py",
    "trainer/network/test_load.py",
    "trainer/machine/test_untrusted.py",
    "trainer/test_main.py",
    "trainer/models/test_author.py",
    "trainer/evaluation/test_confidence.py",
    "lifecycle/registry/test_data_gate.py",
    "test_bad_samples.py",
    "test_one_picture.py",
    "studio/test_demo_server.py",
    "trainer/network/test_network.py",
    "trainer/data/recordings/test_grammar.py",
    "lifecycle/test_preflight.py",
    "trainer/reports/test_gallery.py",
    "pipeline/graph/test_prediction_dag.py",
    "pipeline/vertex/test_benchmark.py",
)
"""Test files that take more than ten seconds, the longest first; a file that is not here only begins later."""

LARGE_BYTES = 64 * 2**20
"""Growth of this process by one test that is worth a search for garbage."""

# Read once, when the libraries are loaded: before any test module is.
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"
os.environ["MPLBACKEND"] = "agg"
os.environ["TF_NUM_INTEROP_THREADS"] = "1"  # the same bits in each run: see trainer/training/train.py
os.environ["XLA_FLAGS"] = "--xla_backend_optimization_level=0"  # to optimize a step takes longer than to run it
# A shell lets what it runs in the background ignore Ctrl-C; tests press it.
signal.signal(signal.SIGINT, signal.default_int_handler)
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ["TF_NUM_INTRAOP_THREADS"] = "1"  # the workers would fight for the processors


# Modules are loaded to stay: to look for garbage meanwhile takes a quarter of the time.
gc.disable()


def pytest_configure(config):
    """Name a file that is not there: of several processes, pytest would say only that no tests ran."""
    for argument in config.args:
        if not (config.invocation_params.dir / argument.partition("::")[0]).exists():
            raise pytest.UsageError(f"file or directory not found: {argument}")


def pytest_collection_modifyitems(items):
    """Let the workers, which take a file at a time, begin with those that take long: so they end together."""
    items.sort(key=lambda item: rank(item.path.relative_to(HERE).as_posix()))


def rank(file):
    """The place of a test file in the order: those of LONG come first for workers."""
    return LONG.index(file) if file in LONG and "PYTEST_XDIST_WORKER" in os.environ else len(LONG)


def pytest_collection_finish():
    """Leave the modules out of the search for garbage, which went through all their objects again and again."""
    gc.collect()
    gc.freeze()
    # Python searches all objects when a quarter as many are new as the last such search left. That was before the
    # modules were left out: without another one, no network of a test would be found for millions of objects.
    gc.collect()
    gc.enable()


@pytest.fixture(autouse=True, scope="session")
def float32():
    """Predict in float32 on every CPU: tests compare with TensorFlow more closely than bfloat16 allows."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(inference, "_fastest", lambda: "float32")
        yield


@pytest.fixture(autouse=True, scope="module")
def no_garbage_between_files():
    """Free what the tests of a file leave: networks, their optimizers and graphs are in cycles."""
    yield
    gc.collect()


@pytest.fixture(autouse=True)
def no_large_garbage():
    """Free the networks of a test: Python counts objects, not bytes, and would let gigabytes of them pile up."""
    before = host.resident_bytes(os.getpid())
    yield
    if host.resident_bytes(os.getpid()) > before + LARGE_BYTES:
        gc.collect()


def names_of_callers(context=0):
    """`inspect.stack` without what takes it long: to which module each frame belongs, and the lines of its source.

    kfp asks for the name of its caller, 23 times a compilation, and below a test there are many frames.
    """
    return [
        inspect.FrameInfo(frame, frame.f_code.co_filename, line, frame.f_code.co_name, None, None)
        for frame, line in traceback.walk_stack(sys._getframe(1))
    ]


inspect.stack = names_of_callers


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch, tmp_path_factory):
    """Leave out what cloud libraries and this project read, and keep libraries from writing to the home folder."""
    for name in os.environ:
        if name.startswith(OTHERS):
            monkeypatch.delenv(name)
    home = tmp_path_factory.getbasetemp()
    monkeypatch.setenv("NO_GCE_CHECK", "true")  # google-auth would look for a metadata server for seconds
    monkeypatch.setenv("MPLCONFIGDIR", str(home / "matplotlib"))
    monkeypatch.setenv("KERAS_HOME", str(home / "keras"))
    monkeypatch.setenv("MSINET_CACHE", "")
    monkeypatch.setenv("CLOUDSDK_CONFIG", str(home / "gcloud"))
    monkeypatch.setattr(benchmark_results, "FILE", tmp_path_factory.mktemp("configs") / "measured.json")


@pytest.fixture
def model(tmp_path):
    """A folder laid out as `train` leaves it; the registry reads none of it but the configuration."""
    folder = tmp_path / "model"
    variables = folder / model_folder.SAVED_MODEL / "variables"
    variables.mkdir(parents=True)
    (folder / model_folder.SAVED_MODEL / "saved_model.pb").write_bytes(b"graph")
    (variables / "variables.index").write_bytes(b"index")
    (folder / model_folder.MODEL_WEIGHTS).write_bytes(b"weights")
    (folder / model_folder.HISTORY).write_text('{"epoch": 1}\n')
    (folder / model_folder.MODEL_CONFIG).write_text('{"best_epoch": 1, "image_size": [32, 40]}')
    return folder
