"""Time of one map on a CPU: ours in float32 and bfloat16, ONNX Runtime on our export, and TensorFlow.

    python -m research.prediction_peers   # two minutes on two idle cores

All have the weights, the averaging and the calibration of one model, and predict the same prepared image in turns.
The table has the median clock and processor seconds of a map, their ratios to ours (median, least, largest), and
the largest difference of a map's value from TensorFlow's. Whole processes, from a command to its
file, are timed from outside: `time python -m trainer predict IMAGE`.
"""

import argparse
import statistics
import time
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import onnxruntime

from trainer.errors import reported
from trainer.io.files import read_json
from trainer.machine.runtime import load_tensorflow
from trainer.models.find import choose_model
from trainer.network.calibration import Calibration
from trainer.network.inference import Inference
from trainer.network.model_folder import MODEL_CONFIG, ModelFolder, flips
from trainer.network.networks import network_of
from trainer.network.onnx_graph import encode_onnx
from trainer.network.weights import read_weights

Predict = Callable[[npt.NDArray[np.float32]], npt.NDArray[np.float32]]


def main() -> None:
    """Measure and print a table in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="pretrained")
    parser.add_argument("--turns", type=int, default=9)
    parsed = parser.parse_args()
    load_tensorflow()
    import tensorflow as tf

    from trainer.network.load import load_model

    folder = choose_model(parsed.model).announced().folder
    size = ModelFolder(folder).image_size
    ours = Inference(folder, size)
    config = read_json(folder / MODEL_CONFIG, "", dict)
    graph = encode_onnx(network_of(config), read_weights(folder), flips(config), Calibration.of_config(config))
    options = onnxruntime.SessionOptions()
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")  # else its threads slow the others
    session = onnxruntime.InferenceSession(graph, options)
    traced = tf.function(load_model(folder), [tf.TensorSpec((1, *size, 3))], autograph=False)
    forms: dict[str, Predict] = {
        ours.runtime: ours,
        "OpenVINO, float32": Inference(folder, size, "float32"),
        f"ONNX Runtime {onnxruntime.__version__}": lambda image: session.run(None, {"input": image})[0][..., 0],
        f"TensorFlow {tf.__version__}": lambda image: traced(image).numpy()[..., 0],
    }
    image = np.random.default_rng(0).integers(0, 256, (1, *size, 3)).astype(np.float32)
    maps = {name: predict(image) for name, predict in forms.items()}
    turns = [{name: _seconds(predict, image) for name, predict in forms.items()} for _ in range(parsed.turns)]
    print("| | clock s | ratio to ours | processor s | ratio to ours | largest difference |")
    print("|---|---|---|---|---|---|")
    for name, map_ in maps.items():
        cells = []
        for kind in (0, 1):
            ratios = [turn[name][kind] / turn[ours.runtime][kind] for turn in turns]
            cells.append(f"{statistics.median(turn[name][kind] for turn in turns):.3f}")
            cells.append(f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})")
        print(
            f"| {name} | {' | '.join(cells)} | {np.abs(map_ - maps[f'TensorFlow {tf.__version__}']).max():.1e} |"
        )


def _seconds(predict: Predict, image: npt.NDArray[np.float32]) -> tuple[float, float]:
    """Clock and processor seconds of a prediction, after one with caches that another form has filled."""
    predict(image)
    clock, processor = time.perf_counter(), time.process_time()
    predict(image)
    return time.perf_counter() - clock, time.process_time() - processor


if __name__ == "__main__":
    with reported():
        main()
