"""Two machines mount one bucket, as two jobs of Vertex AI do: a folder of checkpoints still has one owner.

A minute, since gcsfuse shows the second machine a file of the first one for that long as it was.
"""

import pytest
from google.auth.credentials import AnonymousCredentials
from google.cloud import storage

from tests import mounting
from trainer.errors import UserError
from trainer.folder import Folder
from trainer.training import owner
from trainer.training.owner import Owner

pytestmark = pytest.mark.skipif(bool(mounting.missing()), reason=mounting.missing())


def test_training_that_is_alive_on_another_mount_is_seen_within_the_time_of_the_dead(tmp_path, monkeypatch):
    monkeypatch.setattr(owner, "INTERVAL_S", 5.0)
    places = tmp_path / "one", tmp_path / "two"
    for place in places:
        place.mkdir()
    with mounting.serving() as url:
        client = storage.Client("none", AnonymousCredentials(), client_options={"api_endpoint": url})
        client.create_bucket("runs")
        with mounting.mounted(url, places[0]), mounting.mounted(url, places[1]):
            folders = [Folder(place / "runs" / "state") for place in places]
            first = Owner(folders[0])
            first.claim()
            with pytest.raises(UserError, match="another training writes its checkpoints to"):
                Owner(folders[1]).claim()
            first.check()
            first.release()
            assert folders[0].names() == []
