"""What a run writes comes through gcsfuse whole, as root and as another user; `make check-mount` does more."""

import os
import subprocess
import sys

import pytest

from tests import mounting
from tests.mount_writes import LINES, MODEL
from trainer.io.files import UNFINISHED

pytestmark = pytest.mark.skipif(bool(mounting.missing()), reason=mounting.missing())
OWNERS = [
    False,
    pytest.param(True, marks=pytest.mark.skipif(os.geteuid() != 0, reason="only root becomes another user")),
]


@pytest.mark.parametrize("other", OWNERS, ids=["owner", "other"])
def test_run_writes_to_a_mounted_bucket(tmp_path, other):
    check_writes(tmp_path, other, () if other else mounting.RENAMES_FOLDERS)


def check_writes(tmp_path, other, flags):
    """Run `tests.mount_writes` on a mount with these flags of gcsfuse, and look at the bucket's objects."""
    user, owner = (mounting.as_other(), mounting.OWNED_BY_ROOT) if other else ((), ())
    local = tmp_path / "local"
    local.mkdir(mode=0o777)
    local.chmod(0o777)
    with mounting.bucket(tmp_path / "gcs", *owner, *flags) as (folder, bucket):
        command = [*user, sys.executable, "-m", "tests.mount_writes", folder.parent, folder]
        variables = os.environ | {"TMPDIR": str(local)}
        finished = subprocess.run(command, cwd=mounting.ROOT, env=variables, capture_output=True, text=True)
        assert finished.returncode == 0, finished.stdout + finished.stderr
        content = {blob.name: blob for blob in bucket.list_blobs() if not blob.name.endswith("/")}
        for name, expected in {f"model/{name}": data for name, data in MODEL.items()}.items():
            assert content[name].download_as_bytes() == expected
        assert content["events"].download_as_text() == "".join(LINES)
    assert finished.stdout.count("refused") == 2 * other
    assert not [name for name in content if ".partial-" in name or UNFINISHED in name]
    assert not list(local.iterdir())
