"""Run the network of a model on a CPU with OpenVINO: the ONNX graph of its weights, without TensorFlow."""

import os
import queue
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import numpy.typing as npt

from trainer.errors import ContentError
from trainer.machine import load_openvino, multiplies_bfloat16, n_cpus, openvino_core
from trainer.network import model_folder
from trainer.network.calibration import Calibration
from trainer.network.model_folder import PICTURE, ModelFolder, for_kind
from trainer.network.networks import network_of
from trainer.network.onnx_graph import encode_onnx
from trainer.network.weights import read_stored

PRECISIONS = {"float32": "f32", "bfloat16": "bf16"}
"""Precision -> OpenVINO's name of it. In bfloat16 too, sums and what follows the last convolution are float32."""


class Inference:
    """The network of a model's folder, with its averaging and its calibration, for images of one size.

    Any thread may call it. The same image gives the same map, whatever is beside it in a batch.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        image_size: tuple[int, int],
        precision: str = "",
        kind: str = PICTURE,
        parallel: int = 1,
    ) -> None:
        """Read and compile the network.

        Args:
            folder: a model's folder. Without MODEL_CONFIG it has the defaults.
            image_size: (H, W) of the images, pixels, divisible by the network's stride.
            precision: of PRECISIONS. Empty for bfloat16 on a CPU that multiplies it, else float32.
            kind: of images, PICTURE or PAGE. The maps get its calibration.
            parallel: images that are computed at once, on as many parts of the processors. Each needs memory of
                its own, about 0.2 GB for images of 240 x 320. 1 for the shortest time of a single image.

        Raises:
            UserError: there are no weights, they belong to another network, or MODEL_CONFIG is damaged.
        """
        config = for_kind(ModelFolder(folder).known_config() or {}, kind)
        graph = encode_onnx(
            network_of(config), read_stored(folder), model_folder.flips(config), Calibration.of_config(config)
        )
        core = openvino_core()
        self.precision = precision or _fastest()
        """One of PRECISIONS."""
        self.runtime = f"OpenVINO {load_openvino().__version__.partition('-')[0]}, {self.precision}"
        """The runtime and its precision, for records and people."""
        network = core.read_model(graph)
        network.reshape([1, *image_size, 3])
        hints = {"PERFORMANCE_HINT": "LATENCY", "INFERENCE_PRECISION_HINT": PRECISIONS[self.precision]}
        if parallel > 1:
            hints |= {"INFERENCE_NUM_THREADS": str(max(1, n_cpus() // parallel)), "ENABLE_CPU_PINNING": "NO"}
        self._idle: queue.SimpleQueue[Any] = queue.SimpleQueue()
        # Networks of one stream, made one after another. OpenVINO 2026.4 makes the streams of one network at
        # the same time, and in bfloat16 one network of five then has other maps (research/log.md, 2026-11-29).
        for _ in range(parallel):
            self._idle.put(core.compile_model(network, "CPU", hints).create_infer_request())
        self._threads = ThreadPoolExecutor(parallel, "maps")

    def __call__(self, images: npt.ArrayLike) -> npt.NDArray[np.float32]:
        """Predict the maps, (N, H, W) in [0, 1], of prepared images (N, H, W, 3), 0..255.

        Raises:
            UserError: a prediction is not finite.
        """
        # One by one: in a batch they take as long, and the last bits of a map would depend on its size.
        maps = np.concatenate(list(self._threads.map(self._predict, np.asarray(images, np.float32))))
        if not np.isfinite(maps).all():
            raise ContentError(
                "the model's prediction is not finite: its weights are damaged or its training diverged. Train it "
                "again, or use another model"
            )
        return maps

    def _predict(self, image: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        request = self._idle.get()
        try:
            request.infer([image[None]])
            return np.array(request.get_output_tensor().data[..., 0])
        finally:
            self._idle.put(request)


def _fastest() -> str:
    """The precision that this CPU multiplies fastest."""
    return "bfloat16" if multiplies_bfloat16() else "float32"
