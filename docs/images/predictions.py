"""Draw docs/images/predictions.jpg: photographs above, and what a model predicts for them below.

    python docs/images/predictions.py runs/TIME/model      # or a version, models/msinet/1; half a minute

The photographs come with scikit-image and are in the public domain: an astronaut (NASA), a rocket (SpaceX), a cat
and a cup of coffee (CC0, Stefan van der Walt and Rachel Michetti).
"""

import pathlib
import sys

from PIL import Image
from skimage import data

from trainer.models import find_model
from trainer.prediction.predictor import Predictor
from trainer.reports.charts import blend

HEIGHT_PX, GAP_PX = 260, 6
OUTPUT = pathlib.Path(__file__).with_name("predictions.jpg")


def main(model: str) -> None:
    """Predict with `model` and write the picture."""
    photographs = {name: getattr(data, name)() for name in ("chelsea", "coffee", "astronaut", "rocket")}
    predictor = Predictor(find_model(model))
    columns = []
    for pixels in photographs.values():
        width = round(pixels.shape[1] * HEIGHT_PX / pixels.shape[0])
        blended = blend(pixels, predictor.predict(pixels))
        pair = [Image.fromarray(each).resize((width, HEIGHT_PX)) for each in (pixels, blended)]
        columns.append(pair)
    total = sum(pair[0].width for pair in columns) + GAP_PX * (len(columns) - 1)
    sheet = Image.new("RGB", (total, 2 * HEIGHT_PX + GAP_PX), "white")
    left = 0
    for pair in columns:
        for row, picture in enumerate(pair):
            sheet.paste(picture, (left, row * (HEIGHT_PX + GAP_PX)))
        left += pair[0].width + GAP_PX
    sheet.save(OUTPUT, quality=88)


if __name__ == "__main__":
    main(*sys.argv[1:])
