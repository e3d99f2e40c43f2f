"""Write small archives in the form of each dataset's authors, with the odd files that theirs have.

What is in them is known: `fixations`, `colour` and `ramp` of an image's index.
"""

import io
import pathlib

import h5py
import numpy as np
from PIL import Image
from scipy import io as mat

from tests.small_sources import write_tar, write_zip
from trainer.datasets.table import Dataset

SIZE = (48, 64)
"""(height, width) of the images, pixels."""
SIZES = {"osie": (600, 800), "osie-mouse": (600, 800), "crowd": (768, 1024)}
"""Their points are in pixels of these."""
MISTAKEN = "i05june05_static_street_boston_p1010764"
"""The image of MIT1003 with a second file of points."""
JUNK = {".DS_Store": b"x", "__MACOSX/._x.jpg": b"x", "Thumbs.db": b"x"}


def size_of(dataset):
    """(height, width) of its images, pixels."""
    return SIZES.get(dataset, SIZE)


def fixations(index, size):
    """The (y, x) of each of three observers, (n, 2) from 0; none of them twice, and both corners among them."""
    cells = np.random.default_rng(index).choice(size[0] * size[1] - 2, 7 + index % 3, replace=False) + 1
    points = np.stack(np.unravel_index([0, *cells, size[0] * size[1] - 1], size), axis=-1)
    return np.split(points, (2, 5))


def colour(index):
    """RGB of every pixel of the image."""
    return np.array([(37 * index) % 256, (91 * index + 60) % 256, (151 * index + 120) % 256])


def ramp(index, size=SIZE):
    """Its density, (h, w) uint8."""
    return np.roll(np.tile(np.linspace(0, 255, size[1]), (size[0], 1)), 5 * index, axis=1).astype(np.uint8)


def write(dataset, folder, n):
    """Write its archives with `n` images; returns name -> index of each image."""
    content, indices = FORMS[dataset](n)
    for archive, files in zip(Dataset.named(dataset).archives, content, strict=True):
        save = write_tar if archive.name.endswith(".tar.gz") else write_zip
        save(pathlib.Path(folder) / archive.name, files)
    return indices


# === Files ===


def _stimulus(index, suffix, size=SIZE):
    pixels = np.tile(colour(index).astype(np.uint8), (*size, 1))
    return _encoded(pixels, suffix)


def _encoded(pixels, suffix):
    buffer = io.BytesIO()
    options = {"quality": 100} if suffix != ".png" else {}
    Image.fromarray(pixels).save(buffer, "PNG" if suffix == ".png" else "JPEG", **options)
    return buffer.getvalue()


def _marked(index, suffix=".png", value=255):
    pixels = np.zeros(SIZE, np.uint8)
    pixels[tuple(np.concatenate(fixations(index, SIZE)).T)] = value
    return _encoded(pixels, suffix)


def matlab(**variables):
    """A file of MATLAB 5."""
    buffer = io.BytesIO()
    mat.savemat(buffer, variables, do_compression=True)
    return buffer.getvalue()


def _cells(values):
    """A column of cells."""
    cells = np.empty((len(values), 1), object)
    cells[:, 0] = values
    return cells


# === Forms ===


def _salicon(n):
    names = {
        f"{split}/COCO_{split}2014_{i:012d}": i
        for i in range(n + 2)
        for split in [("train", "val")[i % 3 == 2] if i < n else "test"]
    }
    images = {f"images/{name}.jpg": _stimulus(i, ".jpg") for name, i in names.items()}
    known = {name: i for name, i in names.items() if i < n}
    return (
        images | JUNK,
        {f"{name}.mat": matlab(gaze=_gaze(fixations(i, SIZE))) for name, i in known.items()} | JUNK,
        {f"{name}.png": _encoded(ramp(i), ".png") for name, i in known.items()} | JUNK,
    ), {f"{name.partition('/')[2]}.jpg": i for name, i in known.items()}


def _gaze(observers):
    """SALICON's structs of the (x, y) of each observer, from 1."""
    structs = np.zeros((len(observers), 1), [("location", "O"), ("timestamp", "O"), ("fixations", "O")])
    for struct, points in zip(structs[:, 0], observers, strict=True):
        struct["fixations"] = (points[:, ::-1] + 1).astype(np.uint16)
    return structs


def _mit1003(n):
    names = [MISTAKEN, *(f"i{i:010d}" for i in range(1, n))]
    stimuli = {f"ALLSTIMULI/{name}.jpeg": _stimulus(i, ".jpeg") for i, name in enumerate(names)}
    maps = {f"ALLFIXATIONMAPS/{name}_fixMap.jpg": _encoded(ramp(i), ".jpg") for i, name in enumerate(names)}
    points = {f"ALLFIXATIONMAPS/{name}_fixPts.jpg": _marked(i, ".jpg") for i, name in enumerate(names)}
    mistaken = {f"ALLFIXATIONMAPS/{MISTAKEN}fixPts.jpg": _marked(n, ".jpg")}
    content = (stimuli | JUNK, maps | points | mistaken | JUNK)
    return content, {f"{name}.jpeg": i for i, name in enumerate(names)}


def _cat2000(n):
    names = [f"{('Action', 'Affective')[i % 2]}/{i // 2 + 1:03d}" for i in range(n)]
    files = {"trainSet/allFixData.mat": b"x", "trainSet/FIXATIONLOCS/Action/allFixData/001.mat": b"x"}
    for i, name in enumerate(names):
        category, number = name.split("/")
        files[f"trainSet/Stimuli/{name}.jpg"] = _stimulus(i, ".jpg")
        files[f"trainSet/Stimuli/{category}/Output/{number}_SaliencyMap.jpg"] = _encoded(ramp(n), ".jpg")
        files[f"trainSet/FIXATIONMAPS/{name}.jpg"] = _encoded(ramp(i), ".jpg")
        matrix = np.zeros(SIZE, np.uint8)
        matrix[tuple(np.concatenate(fixations(i, SIZE)).T)] = 1
        files[f"trainSet/FIXATIONLOCS/{name}.mat"] = matlab(fixLocs=matrix)
    return (files,), {f"{name}.jpg": i for i, name in enumerate(names)}


def rows(index, size=SIZE):
    """DUT-OMRON's list of an image: (x, y, observer from 1), and (width, height, 0) in the middle of them."""
    observers = dict(enumerate(fixations(index, size), 1))
    listed = [(x, y, number) for number in (3, 1, 2) for y, x in observers[number].tolist()]
    listed.insert(4, (size[1], size[0], 0))
    return np.array(listed, np.uint16)


def _dutomron(n):
    names = [f"im{i:03d}" for i in range(n)]
    images = {f"DUT-OMRON-image/{name}.jpg": _stimulus(i, ".jpg") for i, name in enumerate(names)}
    lists = {f"DUT-OMRON-eye-fixations/mat/{name}.mat": matlab(s=rows(i)) for i, name in enumerate(names)}
    rubbish = {
        "DUT-OMRON-image/._im000.jpg": b"x",
        "DUT-OMRON-eye-fixations/mat/._im000.mat": b"x",
        "DUT-OMRON-eye-fixations/pic/im000.jpg": _encoded(ramp(0), ".jpg"),
    }
    content = tuple(
        files | {name: each for name, each in rubbish.items() if name.startswith(start)}
        for files, start in ((images, "DUT-OMRON-image/"), (lists, "DUT-OMRON-eye"))
    )
    return content, {f"{name}.jpg": i for i, name in enumerate(names)}


def matlab_hdf5(fill):
    """A file of MATLAB 7.3 that `fill(file)` fills."""
    buffer = io.BytesIO()
    with h5py.File(buffer, "w", userblock_size=512) as file:
        fill(file)
    return b"MATLAB 7.3 MAT-file".ljust(512) + buffer.getvalue()[512:]


def fix_cell(matrices):
    """PASCAL-S's `pascalFix.mat` of an array (3, n) of y, x and observer an image."""

    def fill(file):
        cells = file.create_dataset("fixCell", (1, len(matrices)), h5py.ref_dtype)
        for i, matrix in enumerate(matrices):
            cells[0, i] = file.create_dataset(f"#refs#/{i}", data=matrix).ref

    return matlab_hdf5(fill)


def _pascals(n):
    files = {"datasets/imgs/bruce/1.jpg": _stimulus(n, ".jpg"), "datasets/fixations/bruceFix.mat": b"x"}
    matrices = []
    for i in range(n):
        files[f"datasets/imgs/pascal/{i + 1}.jpg"] = _stimulus(i, ".jpg")
        files[f"datasets/algmaps/pascal/humanFix/{i + 1}.png"] = _encoded(ramp(i), ".png")
        files[f"datasets/algmaps/pascal/itti/{i + 1}.png"] = _encoded(ramp(n), ".png")
        files[f"datasets/masks/pascal/{i + 1}.png"] = _encoded(ramp(n), ".png")
        observers = fixations(i, SIZE)
        numbers = np.repeat([1, 2, 3], [len(points) for points in observers])
        matrices.append(np.vstack([np.concatenate(observers).T + 1, numbers]).astype(float))
    files["datasets/fixations/pascalFix.mat"] = fix_cell(matrices)
    sizes = np.array([SIZE] * n, float).T
    files["datasets/fixations/pascalSize.mat"] = matlab_hdf5(
        lambda file: file.create_dataset("sizeData", data=sizes)
    )
    return (files | JUNK,), {f"{i + 1}.jpg": i for i in range(n)}


def osie_cells(observers_of):
    """OSIE's `fixations` of image name -> points (y, x) of each observer."""
    return _cells(
        [
            {
                "img": name,
                "subjects": _cells(
                    [
                        {"fix_x": p[:, 1:].T + 0.7, "fix_y": p[:, :1].T + 0.2, "fix_duration": p[:, :1].T + 200.0}
                        for p in observers
                    ]
                ),
            }
            for name, observers in observers_of.items()
        ]
    )


def mouse_samples(observers):
    """OSIE's struct of the points (y, x) of each observer's cursor, which has been at the first of them twice."""
    points = [np.concatenate([each, each[:1]]) for each in observers]
    lengths = [len(each) for each in points]
    return {
        "subj": np.repeat([7, 321, 1020], lengths).astype(np.uint16)[:, None],
        "coord": (np.concatenate(points) + 1).astype(np.uint16),
        "order": np.concatenate([np.arange(1, n + 1) for n in lengths]).astype(np.uint8)[:, None],
    }


def _tracked(dataset, folder, indices, others):
    """The files of an archive with OSIE's form of eye tracking: name -> index of each image."""
    size = SIZES[dataset]
    files = {f"{folder}/data/stimuli/{name}": _stimulus(i, ".jpg", size) for name, i in indices.items()}
    cells = osie_cells({name: fixations(i, size) for name, i in indices.items()})
    files[f"{folder}/data/eye/fixations.mat"] = matlab(fixations=cells)
    return files | {f"{folder}/{other}": b"x" for other in others}


def _osie(n):
    """The archive of both datasets: eye tracking, and the tracking of as many observers' mice."""
    folder, indices = "predicting-human-gaze-beyond-pixels-master", {f"{1001 + i}.jpg": i for i in range(n)}
    others = ("LICENSE", "README.md", "data/attrs.mat", "data/mouse_lab/1001.mat", "src/demo.m")
    files = _tracked("osie", folder, indices, others)
    for name, i in indices.items():
        samples = mouse_samples(fixations(i, SIZES["osie"]))
        files[f"{folder}/data/mouse_amt/{name[:-4]}.mat"] = matlab(fixations=samples)
    return (files,), indices


def _crowd(n):
    indices = {f"{i + 1:03d}.jpg": i for i in range(n)}
    others = ("LICENSE", "data/labels.mat", "lib/gbvs/samplepics/1.jpg", "src/demo.m")
    return (_tracked("crowd", "saliency-in-crowd-master", indices, others),), indices


def _fiwi(n):
    files = {}
    for i in range(n):
        files[f"webpage_dataset/stimuli/{i + 1}.png"] = _stimulus(i, ".png")
        files[f"webpage_dataset/fixation/all5/{i + 1}.png"] = _marked(i)
        files[f"webpage_dataset/fixation/subject1/{i + 1}.png"] = _marked(n)
    return (files | JUNK,), {f"{i + 1}.png": i for i in range(n)}


GAZEPOINT = (
    "MEDIA_ID,MEDIA_NAME,CNT,TIME(2022/03/28 14:28:03.787),TIMETICK(f=10000000),FPOGX,FPOGY,FPOGS,FPOGD,FPOGID,"
    "FPOGV,BPOGX,BPOGY,BPOGV,CX,CY,CS,USER,"
)
"""The first columns of UEyes' logs, whose lines end in a comma."""


def gazepoint_line(name, y, x, size=SIZE, valid=1):
    """A line of UEyes' logs: a fixation of the centre of pixel (y, x) of an image in the middle of the screen."""
    screen = np.array([1200, 1920])
    scale = min(screen / size)
    shown = (screen - scale * np.array(size)) / 2 + scale * (np.array([y, x]) + 0.5)
    fpog = "{1:.5f},{0:.5f}".format(*shown / screen)
    return f"6,{name},29,0.47754,43084236554,{fpog},0.21436,0.26318,2,{valid},0.99,0.99,1,0.1,0.05,0,,"


def _ueyes(n):
    """Names end in three ways, those of people and of one map are in either case, and one block is Excel's."""
    indices = {f"{i:05d}f.{('png', 'jpg', 'jpeg')[i % 3]}": i for i in range(n)}
    logs, table, files = {}, ["Image Name;Category;Block;Train/Test"], {"README.md": b"x"}
    for name, i in indices.items():
        suffix = name[name.index(".") :]
        table.append(f"{name};web;{('53', '0,00E+00', '0')[i % 3]};{('Test', 'Train', 'Train')[i % 3]}")
        files[f"images/{name}"] = _stimulus(i, suffix)
        files[f"saliency_maps/heatmaps_7s/{name.upper() if i == 1 else name}"] = _encoded(ramp(i), suffix)
        files[f"saliency_maps/heatmaps_3s/{name}"] = _encoded(ramp(n), suffix)
        files[f"saliency_maps/fixmaps_7s/{name}"] = _marked(n, suffix)
        files[f"saliency_maps/overlay_heatmaps_7s/overlay_{name}"] = _stimulus(n, suffix)
        files[f"scanpaths/paths_7s/{name[:6]}/1.png"] = _stimulus(n, ".png")
        for person, points in zip(("KH003", "kh001", "kh002"), fixations(i, SIZE), strict=True):
            lines = logs.setdefault(f"{('53', '00', '00')[i % 3]}_{person}", [GAZEPOINT])
            lines += [gazepoint_line(name, y, x) for y, x in points.tolist()]
            lines.append(gazepoint_line(name, 20, 20, valid=0))
    for log, lines in logs.items():
        files[f"eyetracker_logs/{log}_fixations.csv"] = "\n".join(lines).encode()
    files["eyetracker_logs/.~lock.53_kh001_fixations.csv#"] = b"x"
    files["image_types.csv"] = "\r\n".join(table).encode()
    return ({f"UEyes_dataset/{path}": content for path, content in files.items()} | JUNK,), indices


def _fixationadd1000(n):
    stimuli = {f"stimuli/{i + 1}.jpg": _stimulus(i, ".jpg") for i in range(n)}
    maps = {f"fixation/{i + 1}.png": _encoded(ramp(i), ".png") for i in range(n)}
    return (stimuli | maps,), {f"{i + 1}.jpg": i for i in range(n)}


FORMS = {
    "salicon": _salicon,
    "mit1003": _mit1003,
    "cat2000": _cat2000,
    "dutomron": _dutomron,
    "pascals": _pascals,
    "osie": _osie,
    "osie-mouse": _osie,
    "crowd": _crowd,
    "fiwi": _fiwi,
    "ueyes": _ueyes,
    "fixationadd1000": _fixationadd1000,
}
"""Dataset -> (files of each of its archives, name -> index of each image), of a number of images."""
