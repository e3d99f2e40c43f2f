"""HTTP connections that send nothing before their machine is known to be allowed, and do not wait for ever."""

import contextlib
import socket
import threading
from typing import Any

import requests  # type: ignore[import-untyped]
from requests.adapters import HTTPAdapter  # type: ignore[import-untyped]
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool

from trainer.downloads.addresses import Rule

PUBLIC = Rule()
HEADERS_S = 60.0
"""From a request to the end of its answer's headers."""
AGENT = "Mozilla/5.0 (compatible; msinet-pipelines)"
"""Google Drive has other pages for programs."""


def open_session(rule: Rule) -> requests.Session:
    """A session whose connections lead to allowed machines only, and that sends no credentials and no cookies.

    A proxy that the environment names is its user's decision, so its own address is not looked at.
    """
    session = requests.Session()
    session.auth = _no_credentials  # instead of those in ~/.netrc
    session.cookies = _NoCookies()
    # The bytes of the file, not packed on the way.
    session.headers.update({"User-Agent": AGENT, "Accept-Encoding": "identity"})
    for scheme in ("https://", "http://"):
        session.mount(scheme, _Adapter(ANY if rule.private else PUBLIC_ONLY))
    return session


def _no_credentials(request: requests.PreparedRequest) -> requests.PreparedRequest:
    return request


class _NoCookies(requests.cookies.RequestsCookieJar):  # type: ignore[misc]
    """Forgets all cookies."""

    def set_cookie(self, *_: Any, **__: Any) -> None:
        """Do nothing."""


def _checked(connected: socket.socket, host: str) -> socket.socket:
    try:
        PUBLIC.check_peer(host, connected.getpeername()[0])
    except BaseException:
        connected.close()
        raise
    return connected


class _Timed:
    """A connection whose answers begin in time: a server may send their headers byte by byte."""

    def getresponse(self) -> Any:
        """The answer to the request, as `http.client` reads it; `TimeoutError` if its headers take too long."""
        is_late = threading.Event()
        sock: Any = getattr(self, "sock", None)

        def end() -> None:
            is_late.set()
            with contextlib.suppress(OSError, AttributeError):
                sock.shutdown(socket.SHUT_RDWR)

        timer = threading.Timer(HEADERS_S, end)
        timer.daemon = True
        timer.start()
        try:
            response = super().getresponse()  # type: ignore[misc]
        except Exception:
            if not is_late.is_set():
                raise
        finally:
            timer.cancel()
        if is_late.is_set():  # headers that end early look like whole ones
            raise TimeoutError("the headers of its answer take too long")
        return response


class _Http(_Timed, HTTPConnection):
    pass


class _Https(_Timed, HTTPSConnection):
    pass


class _PublicHttp(_Http):
    def _new_conn(self) -> socket.socket:
        return _checked(super()._new_conn(), self.host)


class _PublicHttps(_Https):
    def _new_conn(self) -> socket.socket:
        return _checked(super()._new_conn(), self.host)


def _pools(http: type[HTTPConnection], https: type[HTTPSConnection]) -> dict[str, type[HTTPConnectionPool]]:
    """Scheme -> class of the pools of its connections."""
    return {
        "http": type("Http", (HTTPConnectionPool,), {"ConnectionCls": http}),
        "https": type("Https", (HTTPSConnectionPool,), {"ConnectionCls": https}),
    }


ANY, PUBLIC_ONLY = _pools(_Http, _Https), _pools(_PublicHttp, _PublicHttps)


class _Adapter(HTTPAdapter):  # type: ignore[misc]
    def __init__(self, pools: dict[str, type[HTTPConnectionPool]]) -> None:
        self._pools = pools
        super().__init__()

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        super().init_poolmanager(*args, **kwargs)
        self.poolmanager.pool_classes_by_scheme = self._pools

    def proxy_manager_for(self, *args: Any, **kwargs: Any) -> Any:
        manager = super().proxy_manager_for(*args, **kwargs)
        manager.pool_classes_by_scheme = ANY
        return manager
