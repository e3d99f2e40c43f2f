"""What users are told most often: `python -m tests.messages` writes the messages of now to messages.txt."""

import contextlib
import io
import pathlib
import shlex
import tempfile

from PIL import Image

import pipeline.__main__
import trainer.__main__
from tests.small_sources import write_tree
from tests.tiny import write_salicon
from trainer.errors import reported
from trainer.io.files import write_json
from trainer.network.model_folder import MODEL_CONFIG, MODEL_WEIGHTS

FILE = pathlib.Path(__file__).with_name("messages.txt")
COMMANDS = """
python -m trainer predic photo.png
python -m trainer predict missing.png
python -m trainer predict text.png
python -m trainer predict empty.png
python -m trainer predict photo.png --model nosuch
python -m trainer predict photo.png --region button
python -m trainer fetch --dataset osei --source images --output-dir data
python -m trainer fetch --dataset osie --source nowhere --output-dir data
python -m trainer fetch --dataset osie --source nothing --output-dir data
python -m trainer fetch --dataset salicon --source salicon --output-dir data
python -m trainer train --dataset-dir images --output-dir model
python -m trainer train --dataset-dir images --output-dir model --epochs 0
python -m trainer train --dataset-dir images --output-dir model --epoch 3
python -m trainer evaluate --model model --dataset-dir images --output-dir evaluation
python -m pipeline run base_epohcs=3
python -m pipeline run base_epochs=many
python -m pipeline run accelerator=l4
python -m pipeline run --resume nosuch
python -m pipeline submit --env nosuch
python -m pipeline registry show 3
""".strip().splitlines()


def told() -> str:
    """Each command, and what a user is told who gives it in a folder with a few files."""
    with tempfile.TemporaryDirectory() as name, contextlib.chdir(name):
        here = pathlib.Path(name).resolve()
        Image.new("RGB", (60, 40)).save("photo.png")
        pathlib.Path("text.png").write_text("no picture")
        pathlib.Path("empty.png").touch()
        pathlib.Path("nothing").mkdir()
        write_tree(here / "images")
        write_salicon(here / "salicon", 12, 52)
        pathlib.Path("model").mkdir()
        pathlib.Path("model", MODEL_WEIGHTS).touch()
        write_json(pathlib.Path("model", MODEL_CONFIG), {"image_size": [40, 64]})
        return "".join(f"$ {command}\n{_said(command).replace(f'{here}/', '')}\n" for command in COMMANDS)


def _said(command: str) -> str:
    _, _, module, *arguments = shlex.split(command)
    main = {"trainer": trainer.__main__.main, "pipeline": pipeline.__main__.main}[module]
    printed = io.StringIO()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(printed):
        try:
            with reported():
                main(arguments)
        except SystemExit as left:
            said = left.code if isinstance(left.code, str) else printed.getvalue()
            return said.splitlines()[-1]
    raise AssertionError(f"{command} is accepted")


if __name__ == "__main__":
    FILE.write_text(told())
