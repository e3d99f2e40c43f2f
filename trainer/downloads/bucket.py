"""An archive on Cloud Storage: ranges of one generation are read at the same time, and written in their order."""

import pathlib

from trainer import storage
from trainer.downloads.offers import ChangedError, NoAnswerError, Offer
from trainer.downloads.receiving import Partial
from trainer.pool import map_ahead, open_pool
from trainer.progress import Tracker
from trainer.storage import CHUNK_BYTES, MEGABYTE, WORKERS


class Bucket:
    """An archive at a `gs://` address."""

    def __init__(self, address: str) -> None:
        self.address = address

    @property
    def shown(self) -> str:
        """The address for messages."""
        return self.address

    def offer(self) -> Offer:
        """What Cloud Storage says of the object; raises `UserError` as `storage.list_objects`."""
        try:
            found, generation = storage.find_archive(self.address)
        except storage.UnreachableError as error:
            raise NoAnswerError(str(error)) from None
        return Offer(found.name, found.size_bytes, found.crc32c, etag=generation)

    def transfer(self, path: pathlib.Path, offer: Offer) -> None:
        """Receive the rest of the offered generation behind what `path` has of it.

        Raises:
            ChangedError: this generation is no longer there.
            UserError: it may not be read, or there is no room for it.
        """
        assert offer.size_bytes is not None
        done = path.stat().st_size if path.exists() else 0
        total_mb, done_mb = round(offer.size_bytes / MEGABYTE), done // MEGABYTE
        with Tracker(f"download {self.address}", total_mb, "MB", done_mb) as tracker:
            partial = Partial(path, self.address, offer, tracker, done_mb)
            partial.check_room(offer.size_bytes - done)
            try:
                self._receive(partial)
            except storage.MissingError:
                raise ChangedError from None

    def _receive(self, partial: Partial) -> None:
        size, generation = partial.offer.size_bytes or 0, int(partial.offer.etag or 0)
        client = storage.client()
        bucket, name = storage.split(self.address)

        def read(start: int) -> bytes:
            blob = client.bucket(bucket).blob(name, generation=generation or None)
            end = min(start + CHUNK_BYTES, size) - 1
            content: bytes = blob.download_as_bytes(start=start, end=end, checksum=None, retry=storage.retry())
            return content

        with storage.explained(self.address), open_pool(WORKERS) as pool, partial.path.open("ab") as file:
            for content in map_ahead(pool, read, range(file.tell(), size, CHUNK_BYTES), WORKERS):
                file.write(content)
                file.flush()
                partial.show(file.tell())
