"""Connections to the page whose clients have limited time: to send a request's head, and to read an answer.

uvicorn has a limit only for connections on which nothing at all arrives after an answer.
"""

import asyncio

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from trainer.demo import uploads

MAX_HEAD_S = 10.0
"""Time limit for the head of a request, from its first byte on, and from the opening of a connection on."""
MAX_UNREAD_S = 60.0
"""Time limit for reading an answer. The largest have 150 MB, which is 20 s over slow Wi-Fi."""
MAX_UNREAD_BYTES = 300_000_000
"""Answers that are kept for their readers; if there are more, those that wait longest are dropped."""


class Connection(H11Protocol):
    """HTTP/1.1 with these limits."""

    _head: asyncio.TimerHandle | None = None
    """Runs while no request is worked on, and something of the next one, or of the last one's body, may arrive."""
    _answer: asyncio.TimerHandle | None = None
    """Runs while a part of an answer is in this process."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the time for the first head."""
        super().connection_made(transport)
        transport.set_write_buffer_limits(high=0)  # `pause_writing` is called for all that has to wait
        self._limit_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the time."""
        super().connection_lost(exc)
        for timer in (self._head, self._answer):
            if timer is not None:
                timer.cancel()

    def data_received(self, data: bytes) -> None:
        """Take what arrived; start or stop the time for a head."""
        super().data_received(data)
        self._limit_head()

    def on_response_complete(self) -> None:
        """Go on with the next request, if its head has arrived."""
        super().on_response_complete()
        if self.cycle is not None and not self.cycle.response_complete:
            self._limit_head()

    def pause_writing(self) -> None:
        """Start the time for an answer, and make room for it; called when a part of it has to wait."""
        super().pause_writing()
        self._answer = self.loop.call_later(MAX_UNREAD_S, self.transport.abort)
        others = sorted(
            (each for each in self.connections if isinstance(each, Connection) and each.waiting_since),
            key=lambda each: each.waiting_since,
        )
        unread = sum(each.transport.get_write_buffer_size() for each in others)
        for each in others:
            if unread > MAX_UNREAD_BYTES and each is not self:
                unread -= each.transport.get_write_buffer_size()
                each.transport.abort()

    def resume_writing(self) -> None:
        """Stop the time for an answer; called when all of it has been taken."""
        super().resume_writing()
        if self._answer is not None:
            self._answer.cancel()
            self._answer = None

    @property
    def waiting_since(self) -> float:
        """When an answer began to wait for its reader, on the clock of the loop; 0 if none does."""
        return self._answer.when() if self._answer is not None else 0

    def _limit_head(self) -> None:
        """Run the time while it should; it is not prolonged by what arrives."""
        is_working = self.cycle is not None and not self.cycle.response_complete
        if is_working and self._head is not None:
            self._head.cancel()
            self._head = None
        elif not is_working and self._head is None and not self.transport.is_closing():
            is_body = self.conn.their_state is h11.SEND_BODY  # of a request that was refused before it had arrived
            limit_s = uploads.MAX_READ_S if is_body else MAX_HEAD_S
            self._head = self.loop.call_later(limit_s, self.transport.abort)
