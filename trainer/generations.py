"""Objects on Cloud Storage that several processes write: each write names the generation that it replaces.

Each content of an object has a generation, and a request may name the one that it expects. Reads and lists show
every write that has ended.
https://cloud.google.com/storage/docs/request-preconditions
https://cloud.google.com/storage/docs/consistency
"""

import secrets
from typing import Any

from trainer import storage
from trainer.errors import UserError

WRITER = "writer"
"""Metadata of an object: a token of the request that wrote it."""


class ChangedError(UserError):
    """An object that another process has replaced, created or removed meanwhile."""


def read(address: str, connected: Any) -> tuple[bytes, int]:
    """The content of an object, and its generation; empty and 0 if it does not exist.

    Args:
        address: gs://BUCKET/PATH.
        connected: a `storage.client()`.

    Raises `UserError` if it may not be read.
    """
    blob = storage.blob_at(address, connected)
    try:
        with storage.explained(address):
            content: bytes = blob.download_as_bytes(retry=storage.retry())
    except storage.MissingError:
        return b"", 0
    return content, int(blob.generation)


def replace(address: str, content: bytes, generation: int, connected: Any) -> int:
    """Replace an object that still has this generation, 0 if it must not exist yet; returns its new generation.

    Args:
        address: gs://BUCKET/PATH.
        content: its new content.
        generation: as `read` returned it.
        connected: a `storage.client(write=True)`.

    Raises:
        ChangedError: it has another generation.
        UserError: it may not be written.
    """
    from google.api_core.exceptions import PreconditionFailed

    blob = storage.blob_at(address, connected)
    blob.metadata = {WRITER: secrets.token_hex(8)}
    # Objects that everybody may read are cached otherwise, and reads return an earlier content for up to an hour:
    # https://cloud.google.com/storage/docs/caching
    blob.cache_control = "no-store"
    options = {"if_generation_match": generation, "checksum": "crc32c", "retry": storage.retry()}
    with storage.explained(address, write=True):
        try:
            blob.upload_from_string(content, **options)
        except PreconditionFailed:
            # A request is repeated when its reply is lost; then the first one has made the change.
            there = blob.bucket.get_blob(blob.name, retry=storage.retry())
            if there is None or there.metadata != blob.metadata:
                raise _changed(address) from None
            return int(there.generation)
    return int(blob.generation)


def remove(address: str, generation: int, connected: Any) -> None:
    """Remove an object that still has this generation; does nothing if it does not exist.

    Arguments and errors are those of `replace`.
    """
    from google.api_core.exceptions import NotFound, PreconditionFailed

    with storage.explained(address, write=True):
        try:
            storage.blob_at(address, connected).delete(if_generation_match=generation, retry=storage.retry())
        except NotFound:
            return
        except PreconditionFailed:
            raise _changed(address) from None


def _changed(address: str) -> ChangedError:
    return ChangedError(f"{address} was changed by another process meanwhile; try again")
