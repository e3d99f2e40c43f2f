"""Measures how long the demo takes from an image of 12 megapixels to its map, stage by stage.

    python -m benchmarks.demo_latency                       # random weights, 360 x 360; a minute
    python -m benchmarks.demo_latency --model models/msinet/1

A JPEG of 4000 x 3000 is sent to the real server on loopback, as the page sends it. The stages are those of the
header `Server-Timing`; `total` is the client's wall time. `CPU` is the CPU time of this process over all threads,
the server's and the client's: compare it if the machine does other work. The page itself is timed in headless
Chromium, from having the file to the drawn map.
"""

import argparse
import io
import pathlib
import statistics
import tempfile
import threading
import time

import httpx
import numpy as np
from PIL import Image

from trainer.artifacts import MODEL_CONFIG, WEIGHTS
from trainer.config import parse_image_size
from trainer.demo.app import build_app
from trainer.demo.listen import LOOPBACK_NAMES, listen
from trainer.demo.serve import build_server
from trainer.files import write_json
from trainer.model import build_model
from trainer.models.find import find_model
from trainer.prediction.predictor import Predictor

SIZE = (3000, 4000)


def make_photo() -> bytes:
    """A JPEG of 12 megapixels and 3.4 MB, with detail at every scale like a photo."""
    random = np.random.default_rng(0)
    pixels = np.zeros((*SIZE, 3), np.float32)
    for octave in range(11):
        side = 3 * 2**octave
        noise = random.normal(size=(side, side * 4 // 3, 3)).astype(np.float32)
        for channel in range(3):
            scaled = Image.fromarray(noise[..., channel]).resize(SIZE[::-1], Image.Resampling.BICUBIC)
            pixels[..., channel] += np.asarray(scaled) * 40 / 1.25**octave
    buffer = io.BytesIO()
    Image.fromarray(np.clip(pixels + 127, 0, 255).astype(np.uint8)).save(buffer, "JPEG", quality=92)
    return buffer.getvalue()


def write_model(folder: pathlib.Path, image_size: tuple[int, int]) -> pathlib.Path:
    """Write a model folder with random weights, which take as long as trained ones."""
    build_model((None, None), "float32").save_weights(folder / WEIGHTS)
    write_json(folder / MODEL_CONFIG, {"image_size": image_size})
    return folder


def time_server(address: str, data: bytes, turns: int) -> None:
    """Print the milliseconds of each stage."""
    stages: dict[str, list[float]] = {}
    with httpx.Client(base_url=address, timeout=300) as client:
        for _ in range(turns):
            cpu, clock = time.process_time(), time.perf_counter()
            headers = {"content-type": "application/octet-stream"}
            response = client.post("/map", content=data, headers=headers).raise_for_status()
            times = {
                "total": 1000 * (time.perf_counter() - clock),
                "CPU": 1000 * (time.process_time() - cpu),
            }
            for stage in response.headers["server-timing"].split(", "):
                name, _, duration = stage.partition(";dur=")
                times[name] = float(duration)
            for name, ms in times.items():
                stages.setdefault(name, []).append(ms)
    for name, values in stages.items():
        print(f"{name:10} {statistics.median(values):7.0f} ms median, {min(values):5.0f} to {max(values):.0f}")


def time_page(address: str, data: bytes, turns: int) -> None:
    """Print the milliseconds from the file to the drawn map in Chromium."""
    from playwright.sync_api import sync_playwright

    from tests.browser import launch

    with sync_playwright() as playwright, tempfile.NamedTemporaryFile(suffix=".jpg") as file:
        file.write(data)
        file.flush()
        browser = launch(playwright)
        times = []
        for _ in range(turns):
            page = browser.new_page()
            page.goto(address)
            page.locator(".choose").first.wait_for()
            page.locator("input[type=file]").first.set_input_files(file.name)
            page.locator(".size", has_text="4000").wait_for(timeout=60_000)
            times.append(page.evaluate("performance.getEntriesByName('map')[0].duration"))
            page.close()
        browser.close()
    print(f"{'page':10} {statistics.median(times):7.0f} ms median, {min(times):5.0f} to {max(times):.0f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", help="A model as for `demo --model` (default: random weights).")
    parser.add_argument("--image-size", default="360x360", help="Input size of the network with random weights.")
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--no-browser", action="store_true", help="Do not time the page.")
    parsed = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, listen("127.0.0.1", 0) as bound:
        image_size = parse_image_size(parsed.image_size)
        model = find_model(parsed.model) if parsed.model else write_model(pathlib.Path(folder), image_size)
        predictor = Predictor(model)
        predictor.predict(np.zeros((16, 16, 3), np.uint8))
        server = build_server(build_app(predictor, "benchmark", LOOPBACK_NAMES))
        thread = threading.Thread(target=server.run, args=([bound],))
        thread.start()
        try:
            while not server.started:
                time.sleep(0.01)
            address, data = f"http://127.0.0.1:{bound.getsockname()[1]}", make_photo()
            print(f"{len(data) / 1e6:.1f} MB, network input {predictor.image_size[0]} x {predictor.image_size[1]}")
            time_server(address, data, parsed.turns)
            if not parsed.no_browser:
                time_page(address, data, parsed.turns)
        finally:
            server.should_exit = True
            thread.join()


if __name__ == "__main__":
    main()
