"""The datasets of this project.

Sizes, splits and ground truth are as in the reference implementation (alexanderkroner/saliency, data.py and
config.py). Each dataset is read in two forms: as its authors publish it, by the rules of its row, and from
folders of stimuli, maps and fixations (see `trainer/data/source_layout.py`).

The MD5s are from Zenodo or from pysaliency (github.com/matthias-k/pysaliency at 6a45d241): a comment names
the file of its folder pysaliency/external_datasets/. We found no published digests of the other archives.
"""

import dataclasses

from trainer.errors import look_up
from trainer.places import Place, place_of

NOT_STATED = "Not stated. Ask the authors."
"""The licence of a dataset if we found none by its authors."""
HASH, HASH_BY_FOLDER = "hash", "hash_by_folder"
"""Split methods by hashes of names (see `trainer/data/splits.py`)."""
OWN_SHARE = (4, 5)
"""Share of images for training, as numerator and denominator, where any number of images is complete."""


@dataclasses.dataclass(frozen=True)
class Archive:
    """An archive at a public address."""

    address: str
    """gs://, https://, http:// or drive:ID."""
    name: str
    """Name of the file below the source. An archive's stem may tell what it holds. Example: `maps.zip`."""
    digest: str = ""
    """`md5:` or `sha256:` and the hex digits of the file's content, as published. Empty if none is known. A
    download with another digest is refused. MD5 is no security hash: it finds damage and changes, and does not
    prove who made a file."""

    @property
    def place(self) -> Place:
        """Where it is."""
        return place_of(self.address)


@dataclasses.dataclass(frozen=True)
class FileRule:
    """The role of some files in the authors' form."""

    path: str
    """End of the files' paths, in any case. `{name}`, `{suffix}`, `{folder}` and `{split}` stand for parts without
    a slash: the image's name, what follows its last dot, its folder and its split."""
    role: str
    """`stimulus`, `map`, `fixations`, or `split` for a table with the split of each image."""
    reader: str = ""
    """Reader of a file about many images: `ueyes` (`trainer/data/ueyes.py`), or a name in
    `trainer/data/matlab.py`."""


@dataclasses.dataclass(frozen=True)
class Dataset:
    """One row of the table of datasets."""

    image_size: tuple[int, int]
    """(height, width) of the network's input, pixels."""
    n_train: int
    """Number of training images. If it and `n_valid` are 0, any number of images is complete."""
    n_valid: int
    blur_sigma_px: float = 16.0
    """Standard deviation, in original pixels, of the Gaussian that turns points into a density. It counts if
    the maps are points. 16 px is the reference's default."""
    split: str = "shuffle"
    """How the complete dataset is split. `given`: by folders train/ and val/, or a table. `shuffle`: by
    shuffling the sorted paths with seed 42. `shuffle_per_category`: by such a shuffle in each folder of images.
    If the number of images is another one, a hash takes the place of a shuffle (see `trainer/data/splits.py`)."""
    archives: tuple[Archive, ...] = ()
    """The files in which the authors publish the dataset."""
    licence: str = ""
    """Terms of use, as its authors state them, or NOT_STATED."""
    citation: str = ""
    """The publication to cite."""
    homepage: str = ""
    """Page of its authors."""
    files: tuple[FileRule, ...] = ()
    """The files of the authors' archives that are used. Empty if their folders tell what they hold."""
    map_suffix: str = ""
    """Suffix of a map's stem, which follows the stem of its image."""
    fixation_suffix: str = ""
    """Suffix of the stem of a file of fixations, which follows the stem of its image."""
    part: str = ""
    """Name of this dataset's part of its archives, if they hold several. It is a part of its fingerprint."""

    @staticmethod
    def named(name: str) -> "Dataset":
        """The dataset with a name of `DATASETS`. Raises `UserError` with the nearest name if there is none."""
        return look_up("dataset", name, DATASETS)

    @property
    def any_count(self) -> bool:
        """Whether the dataset is complete with any number of images."""
        return self.n_train + self.n_valid == 0

    @property
    def train_share(self) -> tuple[int, int]:
        """Numerator and denominator of the share of images for training."""
        return OWN_SHARE if self.any_count else (self.n_train, self.n_train + self.n_valid)


OSIE = Dataset(
    (240, 320),
    500,
    200,
    archives=(
        Archive(
            "https://github.com/NUS-VIP/predicting-human-gaze-beyond-pixels/archive/master.zip",
            "predicting-human-gaze-beyond-pixels.zip",
        ),
    ),
    files=(FileRule("stimuli/{name}.jpg", "stimulus"), FileRule("fixations.mat", "fixations", reader="osie")),
    licence="MIT License.",
    citation=(
        "Juan Xu, Ming Jiang, Shuo Wang, Mohan S. Kankanhalli, Qi Zhao: Predicting human gaze beyond "
        "pixels. Journal of Vision 14(1), 2014."
    ),
    homepage="https://github.com/NUS-VIP/predicting-human-gaze-beyond-pixels",
)
"""OSIE, by eye tracking."""


DATASETS: dict[str, Dataset] = {
    "salicon": Dataset(
        (240, 320),
        10_000,
        5_000,
        split="given",
        archives=(
            # MD5s: salicon.py, of the same files on Google Drive.
            Archive(
                "drive:1g8j-hTT-51IG1UFwP0xTGhLdgIUCW5e5",
                "images.zip",
                "md5:eb2a1bb706633d1b31fc2e01422c5757",
            ),
            Archive(
                "drive:1P-jeZXCsjoKO79OhFUgnj6FGcyvmLDPj",
                "fixations.zip",
                "md5:462b70f4f9e8ea446ac628e46cea8d3d",
            ),
            Archive("drive:1PnO7szbdub1559LfjYHMy65EDC4VhJC8", "maps.zip"),
        ),
        files=(
            FileRule("images/{split}/{name}.jpg", "stimulus"),
            FileRule("{split}/{name}.png", "map"),
            FileRule("{split}/{name}.mat", "fixations"),
        ),
        licence=(
            "Images: those of Microsoft COCO, under the terms of use of Flickr. Maps and fixations: not stated."
        ),
        citation="Ming Jiang, Shengsheng Huang, Juanyong Duan, Qi Zhao: SALICON: Saliency in context. CVPR 2015.",
        homepage="http://salicon.net/",
    ),
    "mit1003": Dataset(
        (360, 360),
        803,
        200,
        map_suffix="_fixMap",
        fixation_suffix="_fixPts",
        archives=(
            # MD5: mit.py, of the same path by http.
            Archive(
                "https://people.csail.mit.edu/tjudd/WherePeopleLook/ALLSTIMULI.zip",
                "ALLSTIMULI.zip",
                "md5:0d7df8b954ecba69b6796e77b9afe4b6",
            ),
            Archive(
                "https://people.csail.mit.edu/tjudd/WherePeopleLook/ALLFIXATIONMAPS.zip", "ALLFIXATIONMAPS.zip"
            ),
        ),
        files=(
            FileRule("{name}.jpeg", "stimulus"),
            FileRule("{name}_fixMap.jpg", "map"),
            FileRule("{name}_fixPts.jpg", "fixations"),
        ),
        licence="Images: from Flickr (Creative Commons) and LabelMe. Maps and fixations: not stated.",
        citation=(
            "Tilke Judd, Krista Ehinger, Frédo Durand, Antonio Torralba: Learning to predict where humans look. "
            "ICCV 2009."
        ),
        homepage="https://people.csail.mit.edu/tjudd/WherePeopleLook/index.html",
    ),
    "cat2000": Dataset(
        (216, 384),
        1600,
        400,
        split="shuffle_per_category",
        archives=(
            # MD5: cat2000.py, of the same address.
            Archive(
                "http://saliency.mit.edu/trainSet.zip",
                "trainSet.zip",
                "md5:56ad5c77e6c8f72ed9ef2901628d6e48",
            ),
        ),
        files=(
            FileRule("Stimuli/{folder}/{name}.jpg", "stimulus"),
            FileRule("FIXATIONMAPS/{folder}/{name}.jpg", "map"),
            FileRule("FIXATIONLOCS/{folder}/{name}.mat", "fixations"),
        ),
        licence=NOT_STATED,
        citation=(
            "Ali Borji, Laurent Itti: CAT2000: A large scale fixation dataset for boosting saliency research. "
            "CVPR 2015 workshop on the future of datasets, arXiv 1505.03581."
        ),
        homepage="http://saliency.mit.edu/datasets.html",
    ),
    "dutomron": Dataset(
        (360, 360),
        4168,
        1000,
        archives=(
            # MD5s: dut_omrom.py, of the same addresses.
            Archive(
                "http://saliencydetection.net/dut-omron/download/DUT-OMRON-image.zip",
                "DUT-OMRON-image.zip",
                "md5:a8951db9297afacf78bc0e5079103cf1",
            ),
            Archive(
                "http://saliencydetection.net/dut-omron/download/DUT-OMRON-eye-fixations.zip",
                "DUT-OMRON-eye-fixations.zip",
                "md5:d9f4f83fcc78b1e5efb579ae9fb0edc2",
            ),
        ),
        files=(FileRule("DUT-OMRON-image/{name}.jpg", "stimulus"), FileRule("{name}.mat", "fixations")),
        licence=NOT_STATED,
        citation=(
            "Chuan Yang, Lihe Zhang, Huchuan Lu, Xiang Ruan, Ming-Hsuan Yang: Saliency detection via "
            "graph-based manifold ranking. CVPR 2013."
        ),
        homepage="http://saliencydetection.net/dut-omron/",
    ),
    "pascals": Dataset(
        (360, 360),
        650,
        200,
        archives=(
            # MD5: pascal_s.py, of the same address.
            Archive(
                "http://cbs.ic.gatech.edu/salobj/download/salObj.zip",
                "salObj.zip",
                "md5:e48b4e5deac08bddcaec55ce56e4d420",
            ),
        ),
        files=(
            FileRule("imgs/pascal/{name}.jpg", "stimulus"),
            FileRule("pascal/humanFix/{name}.png", "map"),
            FileRule("pascalFix.mat", "fixations", reader="pascals"),
            FileRule("pascalSize.mat", "fixations", reader="pascals"),
        ),
        licence=(
            "Images: those of PASCAL VOC 2010, under the terms of use of Flickr. Maps and fixations: not stated."
        ),
        citation=(
            "Yin Li, Xiaodi Hou, Christof Koch, James M. Rehg, Alan L. Yuille: The secrets of salient object "
            "segmentation. CVPR 2014."
        ),
        homepage="http://cbs.ic.gatech.edu/salobj/",
    ),
    "osie": OSIE,
    # The same photographs, in the same splits. The blur is as in the authors' own maps (their `config.m`).
    "osie-mouse": dataclasses.replace(
        OSIE,
        blur_sigma_px=24.0,
        files=(FileRule("stimuli/{name}.jpg", "stimulus"), FileRule("mouse_amt/{name}.mat", "fixations")),
        part="mouse",
    ),
    # The blur is as in the authors' own maps (their `config.m`).
    "crowd": Dataset(
        (240, 320),
        400,
        100,
        blur_sigma_px=26.0,
        archives=(
            Archive("https://github.com/NUS-VIP/saliency-in-crowd/archive/master.zip", "saliency-in-crowd.zip"),
        ),
        files=(FileRule("stimuli/{name}.jpg", "stimulus"), FileRule("fixations.mat", "fixations", reader="crowd")),
        licence="MIT License.",
        citation="Ming Jiang, Juan Xu, Qi Zhao: Saliency in crowd. ECCV 2014.",
        homepage="https://github.com/NUS-VIP/saliency-in-crowd",
    ),
    "fiwi": Dataset(
        (216, 384),
        99,
        50,
        blur_sigma_px=30.0,
        archives=(
            Archive("https://www.dropbox.com/s/30nxg2uwd1wpb80/webpage_dataset.zip?dl=1", "webpage_dataset.zip"),
        ),
        files=(FileRule("stimuli/{name}.png", "stimulus"), FileRule("all5/{name}.png", "fixations")),
        licence=NOT_STATED,
        citation="Chengyao Shen, Qi Zhao: Webpage saliency. ECCV 2014.",
        homepage="https://www-users.cse.umn.edu/~qzhao/webpage_saliency.html",
    ),
    "fixationadd1000": Dataset(
        (360, 360),
        800,
        200,
        archives=(Archive("gs://hmm-ml-models/fixation/add1000.tar.gz", "add1000.tar.gz"),),
        licence=NOT_STATED,
        citation=(
            "Song Liang, Ruihang Liu, Jiansheng Qian: Fixation prediction for advertising images: Dataset and "
            "benchmark. Journal of Visual Communication and Image Representation, 2021, doi "
            "10.1016/j.jvcir.2021.103356."
        ),
        homepage="https://doi.org/10.1016/j.jvcir.2021.103356",
    ),
    # The form is known from the authors' README, code and a copy of their logs, and from two people who unpacked
    # the archive (13 GB). It was never downloaded here. The maps are of all 7 s of viewing. Folders beside theirs
    # have the first 1 and 3 s. 4:3 suits phones, posters and pages together best, and their text needs pixels.
    "ueyes": Dataset(
        (360, 480),
        1872,
        108,
        split="given",
        archives=(
            # MD5: Zenodo's, as three projects that use it repeat it.
            Archive(
                "https://zenodo.org/api/records/8010312/files/UEyes_dataset.zip/content",
                "UEyes_dataset.zip",
                "md5:c2d53e6af0a47e1f459416d6839ec2c1",
            ),
        ),
        files=(
            FileRule("images/{name}.{suffix}", "stimulus"),
            FileRule("saliency_maps/heatmaps_7s/{name}.{suffix}", "map"),
            FileRule("eyetracker_logs/{name}_fixations.csv", "fixations", reader="ueyes"),
            FileRule("image_types.csv", "split", reader="ueyes"),
        ),
        licence="Creative Commons Attribution 4.0 International (CC BY 4.0).",
        citation=(
            "Yue Jiang, Luis A. Leiva, Hamed Rezazadegan Tavakoli, Paul R. B. Houssel, Julia Kylmälä, Antti "
            "Oulasvirta: UEyes: Understanding visual saliency across user interface types. CHI 2023, doi "
            "10.1145/3544548.3581096."
        ),
        homepage="https://userinterfaces.aalto.fi/ueyeschi23",
    ),
    # Recordings of one's own (see `trainer/data/recordings/`).
    "custom": Dataset((240, 320), 0, 0),
}
