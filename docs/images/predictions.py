"""Draw docs/images/predictions.jpg: a row of photos, and below it a row of predictions for each model.

    python docs/images/predictions.py pretrained      # half a minute

The photos come with scikit-image and are in the public domain: an astronaut (NASA), a rocket (SpaceX), a cat
and a cup of coffee (CC0, Stefan van der Walt and Rachel Michetti).
"""

import pathlib
import sys

from PIL import Image
from skimage import data

from trainer.heat import tint
from trainer.models.find import find_model
from trainer.prediction.predictor import Predictor

HEIGHT_PX, GAP_PX = 260, 6
OUTPUT = pathlib.Path(__file__).with_name("predictions.jpg")


def main(*models: str) -> None:
    """Predict with the models and write the image."""
    photos = {name: getattr(data, name)() for name in ("chelsea", "coffee", "astronaut", "rocket")}
    predictors = [Predictor(find_model(model)) for model in models]
    columns = []
    for pixels in photos.values():
        width = round(pixels.shape[1] * HEIGHT_PX / pixels.shape[0])
        blended = [tint(pixels, predictor.predict(pixels)) for predictor in predictors]
        columns.append([Image.fromarray(cell).resize((width, HEIGHT_PX)) for cell in (pixels, *blended)])
    total = sum(column[0].width for column in columns) + GAP_PX * (len(columns) - 1)
    sheet = Image.new("RGB", (total, (1 + len(models)) * (HEIGHT_PX + GAP_PX) - GAP_PX), "white")
    left = 0
    for column in columns:
        for row, image in enumerate(column):
            sheet.paste(image, (left, row * (HEIGHT_PX + GAP_PX)))
        left += column[0].width + GAP_PX
    sheet.save(OUTPUT, quality=88)


if __name__ == "__main__":
    main(*sys.argv[1:])
