"""What killed tasks have left in the folder of the results is gone when the job ends."""

import numpy as np
import pytest
from PIL import Image

from tests.narrow import narrow_pretrained, narrowed
from trainer.batch import collect_job, plan_job, predict_shard
from trainer.io.files import BESIDE, PARTIAL
from trainer.prediction import PredictConfig

OTHER = "00000000-7-48213-x"
"""Owner of a temporary folder: a process of another machine, as each pod of Kubeflow is one."""
LEFT = (f"{BESIDE}{OTHER}/0.png", f"table/{PARTIAL}{OTHER}/00000.parquet", "work/00000/00000.parquet")
"""What a task leaves that is killed while it predicts, writes the table, or removes the parts of the table."""


@pytest.fixture(autouse=True)
def narrow():
    with narrowed(), narrow_pretrained():
        yield


def test_leftovers_of_tasks_on_other_machines_are_removed(tmp_path):
    source, output = tmp_path / "source", tmp_path / "output"
    source.mkdir()
    Image.fromarray(np.zeros((20, 28), np.uint8)).save(source / "a.png")
    plan_job(str(source), str(output), "pretrained", PredictConfig(format="png"))
    predict_shard(str(output), 0)
    for name in LEFT:
        (output / name).parent.mkdir(parents=True, exist_ok=True)
        (output / name).touch()
    collect_job(str(output))
    found = {path.relative_to(output).as_posix() for path in output.rglob("*")}
    shards, maps = {"shards/00000.json", "shards/00000.parquet"}, {"png/a.png.png"}
    folders = {"shards", "table", "png"}
    assert found == folders | shards | maps | {"table/00000.parquet", "job.json", "unread.csv", "summary.json"}
