"""The files of a registry, in a folder or in a bucket, by their paths below its root."""

import pathlib
import shutil

from trainer.places import buckets
from trainer.places.bucket_place import BucketPlace


class FolderFiles:
    def __init__(self, root):
        self._root = pathlib.Path(root)

    def paths(self):
        """The paths of all files but the lock, sorted."""
        files = (path.relative_to(self._root) for path in self._root.rglob("*") if path.is_file())
        return sorted(path.as_posix() for path in files if path.name != ".lock")

    def read(self, path):
        return (self._root / path).read_bytes()

    def write(self, path, content):
        (self._root / path).parent.mkdir(parents=True, exist_ok=True)
        (self._root / path).write_bytes(content)

    def remove(self, path):
        place = self._root / path
        shutil.rmtree(place) if place.is_dir() else place.unlink()


class BucketFiles:
    def __init__(self, root):
        place = BucketPlace(root)
        bucket, self._root = place.bucket, place.object_path
        self._bucket = buckets.storage_client(write=True).bucket(bucket)

    def paths(self):
        blobs = self._bucket.list_blobs(prefix=f"{self._root}/")
        paths = (blob.name.removeprefix(f"{self._root}/") for blob in blobs)
        return sorted(path for path in paths if not path.endswith("/.lock"))

    def read(self, path):
        return self._bucket.blob(f"{self._root}/{path}").download_as_bytes()

    def write(self, path, content):
        self._bucket.blob(f"{self._root}/{path}").upload_from_string(content)

    def remove(self, path):
        for each in self.paths():
            if f"{each}/".startswith(f"{path}/"):
                self._bucket.blob(f"{self._root}/{each}").delete()
