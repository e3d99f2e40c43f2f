"""`predict`: pictures, names, files that are none, settings, regions, and models whose JSON is damaged."""

import functools
import os
import pathlib
import random
import socket

import numpy as np

from tests.fuzz import documents, model, names, pictures
from tests.fuzz.verdicts import Input, command, expect

REGIONS = (
    "a:1,2,3,4",
    "a:0,0,0,0",
    "a:1%,1%,5%,5%",
    "a:nan,1,1,1",
    "a:1e9,1,1,1",
    "a:-1,-1,9,9",
    "a",
    ":1,1,1,1",
    "a:1,1%,1,1",
)
SETTINGS = (
    ("--format", ("png", "png16", "overlay", "jpeg", "", "png,png", "npy,,png")),
    ("--opacity", ("0", "2", "nan", "-1", "x")),
    ("--batch-size", ("1", "0", "-1", "9" * 30)),
    ("--most-megapixels", ("0", "1e-5", "nan", "inf", "1e300")),
)


class Target:
    def __init__(self, folder: pathlib.Path) -> None:
        self._model = model.written(folder)
        self._folder = folder

    def make(self, source: random.Random, folder: pathlib.Path) -> Input:
        makers = (self._picture,) * 8 + (self._named, self._named, self._special, self._settings, self._designs)
        return source.choice((*makers, self._config, self._registry))(source, folder)

    def _command(self, folder: pathlib.Path, *arguments: str, named: pathlib.Path | None = None) -> None:
        here = ("--model", str(named or self._model.folder), "--output-dir", str(folder / "out"))
        command("predict", *here, *arguments)

    def _picture(self, source: random.Random, folder: pathlib.Path) -> Input:
        made = pictures.picture(source)
        path = folder / f"picture{made.suffix if source.random() < 0.8 else source.choice(('.jpg', '.png', ''))}"
        path.write_bytes(made.data)
        run = functools.partial(self._command, folder, str(path), "--format", "npy")
        compare = functools.partial(self._compare, made, folder)
        return Input(made.kind, run, compare, made.is_sound, outputs=folder / "out")

    def _compare(self, made: pictures.Picture, folder: pathlib.Path) -> None:
        """The map is the network's, of the pixels that Pillow alone reads."""
        (written,) = (folder / "out").glob("*.npy")
        theirs = pictures.independent(made.data)
        expect(theirs is not None, "Pillow does not read it, and there is a map")
        assert theirs is not None
        ours = np.load(written)
        expect(ours.shape == theirs.shape[:2], f"the map is {ours.shape}, the picture {theirs.shape[:2]}")
        off = float(np.abs(ours - self._model.map(theirs)).max())
        expect(off <= model.TOLERANCE, f"the map differs by {off:.3g} from that of Pillow's pixels")

    def _named(self, source: random.Random, folder: pathlib.Path) -> Input:
        """A sound picture in a file, or below a folder, of an odd name, or an odd name of nothing."""
        made = pictures.sound(source)
        stem = names.stem(source)
        kind = source.choice(("file", "folder", "nothing"))
        path = folder / "in" / (f"{stem}{made.suffix}" if kind == "file" else f"{stem}/x{made.suffix}")
        path.parent.mkdir(parents=True)
        path.write_bytes(made.data)
        named = {"file": str(path), "folder": str(path.parent), "nothing": names.name(source)}[kind]
        if source.random() < 0.3 and kind != "nothing":
            named = str(folder / "in")
        run = functools.partial(self._command, folder, "--json", str(folder / "j.json"), "--", named)
        return Input(f"name of a {kind}", run, names=(stem, named), outputs=folder / "out")

    def _special(self, source: random.Random, folder: pathlib.Path) -> Input:
        path = folder / "x.png"
        kind = source.choice(("pipe", "socket", "device", "loop", "dangling", "folder", "locked", "up", "both"))
        if kind == "pipe":
            os.mkfifo(path)
        elif kind == "socket":
            with socket.socket(socket.AF_UNIX) as bound:
                os.chdir(folder)
                bound.bind(path.name)
        elif kind == "folder":
            path.mkdir()
        elif kind == "locked":
            path.write_bytes(b"")
            path.chmod(0)
        else:
            places = {"device": "/dev/zero", "loop": "x.png", "dangling": "nowhere", "up": ".", "both": ".."}
            path.symlink_to(places[kind])
        named = path if source.random() < 0.5 else folder
        run = functools.partial(self._command, folder, str(named))
        return Input(f"special {kind}", run, outputs=folder / "out")

    def _settings(self, source: random.Random, folder: pathlib.Path) -> Input:
        path = folder / "x.png"
        path.write_bytes(pictures.sound(source).data)
        arguments = [str(path)]
        for flag, values in source.sample(SETTINGS, source.randint(1, 2)):
            arguments += [flag, source.choice(values)]
        if source.random() < 0.6:
            region = source.choice((*REGIONS, f"{names.name(source)}:1,1,1,1"))
            arguments += ["--region", region]
        return Input("settings", functools.partial(self._command, folder, *arguments), names=tuple(arguments))

    def _designs(self, source: random.Random, folder: pathlib.Path) -> Input:
        paths = []
        for stem in "ab":
            made = pictures.picture(source)
            paths.append(folder / f"{stem}{made.suffix}")
            paths[-1].write_bytes(made.data)
        regions = ["--region", source.choice(REGIONS)] if source.random() < 0.5 else []
        run = functools.partial(self._command, folder, "--compare", *map(str, paths), *regions)
        return Input("designs", run, outputs=folder / "out")

    def _config(self, source: random.Random, folder: pathlib.Path) -> Input:
        """A model's folder with a damaged config.json."""
        here = folder / "model"
        here.mkdir()
        kind = self._write_model(here, source)
        return self._of_model(f"config.json, {kind}", here, folder, source)

    def _write_model(self, here: pathlib.Path, source: random.Random | None) -> str:
        (here / "model.weights.h5").symlink_to(self._model.folder / "model.weights.h5")
        if source is None:
            (here / "config.json").symlink_to(self._model.folder / "config.json")
            return ""
        kind, content = documents.document(model.CONFIG, source)
        (here / "config.json").write_bytes(content)
        return kind

    def _registry(self, source: random.Random, folder: pathlib.Path) -> Input:
        """A registry with a damaged aliases.json, or a folder beside the versions."""
        name = folder / "models" / "msinet"
        for number in ("1", "2"):
            version = name / number / "assets.extra"
            version.mkdir(parents=True)
            self._write_model(version, None)
        kind, content = documents.document({"default": 1, "challenger": 2}, source)
        (name / "aliases.json").write_bytes(content)
        if source.random() < 0.3:
            (name / source.choice(("\u0663", "3", "x", "-1", "\u00b2", "9" * 200))).mkdir()
        named = f"{name}{source.choice(('', '@default', '@challenger', '@1', f'@{names.name(source)}'))}"
        return self._of_model(f"aliases.json, {kind}", pathlib.Path(named), folder, source)

    def _of_model(self, kind: str, named: pathlib.Path, folder: pathlib.Path, source: random.Random) -> Input:
        path = folder / "x.png"
        path.write_bytes(pictures.of_format(source, "PNG", (20, 30)))
        run = functools.partial(self._command, folder, str(path), named=named)
        return Input(kind, run, names=(str(named),), outputs=folder / "out")
