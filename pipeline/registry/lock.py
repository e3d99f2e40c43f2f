"""Objects on Cloud Storage that several processes write: replace one only if it is unchanged, and lock with one.

Each content of an object has a generation, and a request may name the one that it expects. Reads and lists show
every write that has ended.
https://cloud.google.com/storage/docs/request-preconditions
https://cloud.google.com/storage/docs/consistency
"""

import os
import secrets
import socket
import threading
import time
from contextlib import suppress
from typing import Any, Self

from trainer import storage
from trainer.errors import UserError, check

LEASE_S = 60.0
"""A process that has not renewed its lock for so long is taken for dead."""
RENEWALS = 4
"""A living one renews it so often in that time."""
WAIT_S = 1800.0
"""How long to wait for a lock that is renewed. It is held while a model of some 200 MB is uploaded."""
POLL_S = 1.0
WRITER = "writer"
"""Metadata of an object: a token of the request that wrote it."""


class ChangedError(UserError):
    """An object that another process has replaced or created meanwhile."""


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
                raise ChangedError(f"{address} was changed by another process meanwhile; try again") from None
            return int(there.generation)
    return int(blob.generation)


class Lock:
    """A lock for the length of a `with` block: an object that names its holder, or is empty.

    The holder renews the lock. Another process takes it over when it has seen no renewal for LEASE_S by its own
    clock, so that clocks need not agree. A holder that was only stopped for so long then continues beside the
    next one. So each write that matters must be a `replace` of its own.
    """

    def __init__(self, address: str, connected: Any) -> None:
        self._address = address
        self._connected = connected
        self._holder = f"process {os.getpid()} on {socket.gethostname()}"
        self._generation = 0
        self._ended = threading.Event()
        self._renewer = threading.Thread(target=self._renew, daemon=True)

    def __enter__(self) -> Self:
        self._acquire()
        self._renewer.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._ended.set()
        self._renewer.join()
        with suppress(UserError):  # taken over, or out of reach; then it ends by itself
            self._write(b"")

    def _acquire(self) -> None:
        started = changed = time.monotonic()
        seen, told = -1, ""
        while True:
            content, generation = read(self._address, self._connected)
            if generation != seen:
                seen, changed = generation, time.monotonic()
            if not content or time.monotonic() - changed > LEASE_S:
                self._generation = generation
                with suppress(ChangedError):
                    self._write(self._holder.encode())
                    return
            holder = content.decode(errors="replace") or "another process"
            check(
                time.monotonic() - started < WAIT_S,
                f"{self._address} has been held for {WAIT_S / 60:.0f} minutes, now by {holder}; "
                "end it, then try again",
            )
            if content and holder != told:
                print(f"waiting until {holder} releases {self._address}", flush=True)
                told = holder
            time.sleep(POLL_S)

    def _renew(self) -> None:
        while not self._ended.wait(LEASE_S / RENEWALS):
            try:
                self._write(self._holder.encode())
            except ChangedError:
                return
            except UserError as error:
                print(f"warning: {error}", flush=True)

    def _write(self, content: bytes) -> None:
        self._generation = replace(self._address, content, self._generation, self._connected)
