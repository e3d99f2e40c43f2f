"""How well the map of a page predicts people on each screen: `python -m research.long_pages FOLDER`.

FOLDER has `images.zip`, `maps.zip` and `fixations.zip` of SALICON's form. Pictures are put above each other to a
page: as they are, so that its screens do not end where pictures do, or cut to the proportions of a desktop's
screen, so that they do. Prints, for the model `pretrained`, the CC and the NSS of people with the part of the
page's map at each picture, predicted as one image or screen by screen, and with the map of the picture alone.
"""

import io
import pathlib
import sys
import zipfile

import numpy as np
from scipy.io import loadmat

from trainer.metrics.metrics import correlation, nss
from trainer.models.find import choose_model
from trainer.models.model_names import PRETRAINED
from trainer.pictures import read_picture
from trainer.prediction.kinds import page_weight, screen_of
from trainer.prediction.predictor import Predictor
from trainer.prediction.screens import DESKTOP, SCREENS, WHOLE

PICTURES = 60
PAGES = ((5, False), (5, True), (3, True), (2, True))
"""Pictures of a page, and whether they are cut to a screen's proportions."""


def main(folder: str) -> None:
    predictor = Predictor(choose_model(PRETRAINED).announced().folder)
    images, maps, fixations = (
        zipfile.ZipFile(pathlib.Path(folder, f"{name}.zip")) for name in ("images", "maps", "fixations")
    )
    names = sorted(
        pathlib.PurePath(name).stem for name in images.namelist() if "/val/" in name and name[-1] != "/"
    )
    pictures, densities, points = [], [], []
    for name in names[:PICTURES]:
        pictures.append(read_picture(images.read(f"images/val/{name}.jpg"), name))
        densities.append(read_picture(maps.read(f"val/{name}.png"), name)[..., 0])
        gaze = loadmat(io.BytesIO(fixations.read(f"val/{name}.mat")), simplify_cells=True)["gaze"]
        places = np.concatenate([np.reshape(each["fixations"], (-1, 2)) for each in gaze]).astype(int)
        marks = np.zeros(densities[-1].shape, int)
        np.add.at(marks, (places[:, 1] - 1, places[:, 0] - 1), 1)  # (x, y), from 1
        points.append(marks)
    for n_pictures, is_screen in PAGES:
        height, width = pictures[0].shape[:2]
        kept = round(width * SCREENS[DESKTOP]) if is_screen else height
        middle = slice((height - kept) // 2, (height - kept) // 2 + kept)
        scores = []
        for first in range(0, len(pictures), n_pictures):
            chosen = range(first, first + n_pictures)
            page = np.concatenate([pictures[index][middle] for index in chosen])
            whole, cut = predictor.predict(page, WHOLE), predictor.predict(page, DESKTOP)
            for row, index in enumerate(chosen):
                part = slice(row * kept, (row + 1) * kept)
                predicted = (whole[part], cut[part], predictor.predict(pictures[index][middle], WHOLE))
                marks = points[index][middle]
                at = np.repeat(np.argwhere(marks), marks[marks > 0], axis=0)
                scores.append(
                    [
                        (correlation(each, densities[index][middle].astype(float)), nss(each, at).mean())
                        for each in predicted
                    ]
                )
        asked = screen_of(page, page_weight(page))
        n_screens = len(cut.screens)
        print(
            f"pages of {page.shape[0]} x {width}, {n_pictures} pictures, {n_screens} screens. By content: {asked}"
        )
        titles = ("as one image", "screen by screen", "picture alone")
        for title, values in zip(titles, np.transpose(scores, (1, 2, 0)), strict=True):
            errors = 1.96 * values.std(axis=1, ddof=1) / len(scores) ** 0.5
            (of_cc, of_nss), (cc_error, nss_error) = values.mean(axis=1), errors
            print(f"  {title:16} CC {of_cc:.3f} ± {cc_error:.3f}, NSS {of_nss:.3f} ± {nss_error:.3f}")


if __name__ == "__main__":
    main(sys.argv[1])
