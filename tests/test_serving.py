"""The exported model behind a server, by the requests of docs/serving.md, in this TensorFlow.

`tests/serve_in_2_15.py` runs the same in TensorFlow 2.15.
"""

import base64
import io
import json
import os
import pathlib
import subprocess
import sys
import urllib.error
import urllib.request

import numpy as np
import pytest
from google.auth.credentials import AnonymousCredentials
from google.cloud import storage
from google.cloud.aiplatform_v1.types import BatchPredictionJob
from PIL import Image

from tests import refused_pictures
from tests.gcs import upload
from tests.golden.inputs import image
from tests.https import STORAGE, answered_by
from tests.images import stages
from tests.trainer import predictable
from trainer.network import preprocess, saved_model
from trainer.network.load import Trained
from trainer.network.model_folder import SIGNATURES
from trainer.network.preprocess import Frame
from trainer.pictures import read_picture

ROOT = pathlib.Path(__file__).parent.parent
GUIDE = (ROOT / "docs" / "serving.md").read_text()
PROGRAMS = ROOT / "docs" / "serving"
RECIPE = ROOT / "images" / "serving" / "Dockerfile"
SIZE = (64, 80)
STAGED = "msinet-staged"
"""The model that lies on Cloud Storage."""


@pytest.fixture(scope="module")
def network():
    return predictable.network(1)


@pytest.fixture(scope="module")
def exports(network, tmp_path_factory):
    """The export of a version, and the one for batch prediction: folders of numbered ones."""
    folder = tmp_path_factory.mktemp("exports")
    for name, default in zip(("msinet", "msinet-bytes"), SIGNATURES, strict=True):
        saved_model.write_saved_model(Trained(network), SIZE, folder / name / "1", default)
    return folder


@pytest.fixture(scope="module")
def artifacts(exports, gcs_url):
    """Address of the version's export on Cloud Storage, as Vertex AI passes it: AIP_STORAGE_URI."""
    credentials, options = AnonymousCredentials(), {"api_endpoint": gcs_url}
    client = storage.Client("test", credentials, client_options=options)
    return upload(client.create_bucket("tenant-of-vertex"), exports / "msinet", "models-1/artifacts")


@pytest.fixture(scope="module")
def interpreter():
    """A Python, and the version of TensorFlow that it has."""
    return sys.executable, "2.20."


@pytest.fixture(scope="module")
def server(interpreter, exports, artifacts, gcs_url, tmp_path_factory):
    """Address of the REST API, and of gRPC where it can be had."""
    places = {path.name: path for path in exports.iterdir()} | {STAGED: artifacts}
    program = [interpreter[0], "-P", ROOT / "tests" / "serving_server.py"]
    command = [*program, *(f"{name}={place}" for name, place in places.items())]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    # TensorFlow reads `gs://` by code of its own (xla/tsl/platform/cloud/gcs_file_system.cc), which TensorFlow
    # Serving is linked with (tensorflow_serving/model_servers/BUILD). It obeys the variables of libcurl.
    with (
        answered_by(dict.fromkeys(STORAGE, gcs_url), tmp_path_factory.mktemp("trusted")) as (proxy, trusted),
        subprocess.Popen(
            command,
            cwd=exports,
            env=os.environ | {"https_proxy": proxy, "CURL_CA_BUNDLE": trusted, "NO_GCE_CHECK": "true"},
            **pipes,
        ) as process,
    ):
        version, rest, grpc = process.stdout.readline().split()
        assert version.startswith(interpreter[1])
        yield f"http://127.0.0.1:{rest}/v1/models/", f"127.0.0.1:{grpc}" if int(grpc) else None
        process.stdin.close()
        assert process.wait(60) == 0


def post(server, body, model="msinet"):
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    try:
        with urllib.request.urlopen(f"{server[0]}{model}:predict", content, timeout=120) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)


def encoded(pixels, kind="PNG", **options):
    content = io.BytesIO()
    Image.fromarray(pixels).save(content, kind, **options)
    return content.getvalue()


def b64(content):
    return {"b64": base64.b64encode(content).decode()}


def levels(content):
    return np.asarray(Image.open(io.BytesIO(content))).astype(int)


def expected_levels(network, content):
    pixels = read_picture(content, "it")
    prediction = network(Frame(SIZE).image(pixels)[None]).numpy()[0]
    return preprocess.restore_map(prediction, pixels.shape[:2])[..., 0].astype(int)


def run(*command, **options):
    finished = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300, **options)
    assert finished.returncode == 0, finished.stderr
    return finished


# === The model ===


def test_prepared_images_have_the_networks_maps(server, network):
    stimuli = np.random.default_rng(0).uniform(0, 255, (2, 48, 64, 3)).astype(np.float32)
    status, answer = post(server, {"instances": stimuli.tolist()})
    assert status == 200
    np.testing.assert_allclose(np.array(answer["predictions"]), network(stimuli).numpy(), atol=1e-5, rtol=0)


def test_encoded_images_have_the_networks_levels_at_their_own_sizes(server, network):
    tags = Image.Exif()
    tags[0x0112] = 8
    contents = [
        encoded(image(1, 1, 97, 131)[0]),
        encoded(image(2, 1, 40, 200)[0], "JPEG", exif=tags, quality=90),
        encoded(image(4, 1, 30, 20)[0], "BMP"),
        encoded(np.dstack([image(5, 1, 30, 20)[0], image(6, 1, 30, 20)[0][..., 0]])),
    ]
    bad = [b"", b"no image", contents[0][:99], contents[1][:99], b"RIFF\0\0\0\0WEBPVP8 ", b"GIF89a"]
    body = {"signature_name": "serve_bytes", "instances": [b64(each) for each in contents + bad]}
    status, answer = post(server, body)
    assert status == 200
    maps = [base64.b64decode(each["b64"]) for each in answer["predictions"]]
    assert maps[len(contents) :] == [b""] * len(bad)
    for content, found in zip(contents, maps[: len(contents)], strict=True):
        expected = expected_levels(network, content)
        assert levels(found).shape == expected.shape
        assert np.abs(levels(found) - expected).max() <= 1


def test_model_is_read_from_cloud_storage(server, network):
    stimuli = np.random.default_rng(1).uniform(0, 255, (1, 48, 64, 3)).astype(np.float32)
    status, answer = post(server, {"instances": stimuli.tolist()}, STAGED)
    assert status == 200
    np.testing.assert_allclose(np.array(answer["predictions"]), network(stimuli).numpy(), atol=1e-5, rtol=0)


def test_export_has_what_an_image_copies(exports):
    copied = {arguments.split()[1] for arguments in stages(RECIPE.read_text())[1]["built-in"].of("COPY")}
    assert copied == {"saved_model.pb", "variables"}
    export = exports / "msinet" / "1"
    assert {path.name for path in export.iterdir()} - copied <= {"assets", "fingerprint.pb"}
    assert not list((export / "assets").iterdir())


REFUSES = """
import pathlib, re, sys, time
import tensorflow as tf

def peak_mb():
    return int(re.search(r"VmHWM:\\s+(\\d+) kB", pathlib.Path("/proc/self/status").read_text())[1]) // 1024

serve = tf.saved_model.load(sys.argv[1]).signatures["serve_bytes"]
good, *refused = (tf.constant([pathlib.Path(path).read_bytes()]) for path in sys.argv[2:])
answer = lambda content: serve(image_bytes=content)["saliency_bytes"][0]
assert answer(good) != b""
before = peak_mb()
for content in refused:
    started = time.monotonic()
    for _ in range(40):
        assert answer(content) == b""
        assert peak_mb() - before < 100, "decoding takes 144 MB at least"
    assert time.monotonic() - started < 10, "decoding takes half a second at least"
"""
CHECKS_OF_MEMORY = "libc_malloc_debug.so.0"
"""Has had glibc's MALLOC_CHECK_ since glibc 2.34; elsewhere the loader says that it is not there, and goes on."""


def test_refused_pictures_cost_reading_their_heads(interpreter, exports, tmp_path):
    contents = [encoded(image(1, 1, 45, 60)[0]), refused_pictures.animation(), *refused_pictures.LARGE.values()]
    paths = [tmp_path / str(index) for index in range(len(contents))]
    for path, content in zip(paths, contents, strict=True):
        path.write_bytes(content)
    checked = os.environ | {"MALLOC_CHECK_": "3", "LD_PRELOAD": CHECKS_OF_MEMORY}
    run(interpreter[0], "-P", "-c", REFUSES, exports / "msinet" / "1", *paths, env=checked)


# === The guide ===


def test_client_of_the_guide_writes_the_map_of_a_large_turned_photograph(server, tmp_path):
    tags = Image.Exif()
    tags[0x0112] = 6
    (tmp_path / "photo.jpg").write_bytes(encoded(np.repeat(image(1, 1, 100, 150)[0], 20, 0), "JPEG", exif=tags))
    arguments = [f"{server[0]}msinet:predict", "photo.jpg", "map.png"]
    run(sys.executable, PROGRAMS / "client.py", *arguments, cwd=tmp_path)
    assert levels((tmp_path / "map.png").read_bytes()).shape == (96, 1280)


def test_grpc_client_of_the_guide_writes_the_map(server, interpreter, network, tmp_path):
    if server[1] is None:
        pytest.skip("tensorflow-serving-api is in the environment of `make test-serving` only")
    content = encoded(image(1, 1, 45, 60)[0], "JPEG")
    (tmp_path / "photo.jpg").write_bytes(content)
    run(interpreter[0], PROGRAMS / "client_grpc.py", server[1], "photo.jpg", "map.png", cwd=tmp_path)
    difference = levels((tmp_path / "map.png").read_bytes()) - expected_levels(network, content)
    assert np.abs(difference).max() <= 1


def test_photographs_of_one_name_in_two_folders_are_refused_before_a_map_replaces_another(tmp_path):
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "x.jpg").write_bytes(b"")
    command = [sys.executable, PROGRAMS / "to_lines.py", "a/x.jpg", "b/x.jpg"]
    finished = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert finished.returncode
    assert not finished.stdout
    assert "x.jpg" in finished.stderr


def test_batch_prediction_of_the_guide_goes_through(server, network, tmp_path):
    contents = {"a.png": encoded(image(1, 1, 45, 60)[0]), "b.jpg": b"no image"}
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
    lines = run(sys.executable, PROGRAMS / "to_lines.py", *contents, cwd=tmp_path).stdout.splitlines()
    job = json.loads((PROGRAMS / "batch.json").read_text())
    assert BatchPredictionJob.from_json(json.dumps(job)).manual_batch_tuning_parameters.batch_size == 8
    # What the service does by its description: the key is kept, the rest is an instance, no signature is named.
    instances = [json.loads(line) for line in lines]
    keys = [each.pop(job["instanceConfig"]["keyField"]) for each in instances]
    status, answer = post(server, {"instances": instances}, "msinet-bytes")
    assert status == 200
    results = zip(keys, answer["predictions"], strict=True)
    (tmp_path / "results").write_text("".join(json.dumps({"key": k, "prediction": p}) + "\n" for k, p in results))
    finished = run(sys.executable, PROGRAMS / "from_lines.py", "maps", "results", cwd=tmp_path)
    assert [path.name for path in (tmp_path / "maps").iterdir()] == ["a.png.png"]
    assert "b.jpg is no image" in finished.stderr
    found = (tmp_path / "maps" / "a.png.png").read_bytes()
    assert np.abs(levels(found) - expected_levels(network, contents["a.png"])).max() <= 1
    # A list of files becomes instances without names.
    files = {"instances": [b64(content) for content in contents.values()]}
    assert post(server, files, "msinet-bytes") == (200, answer)
