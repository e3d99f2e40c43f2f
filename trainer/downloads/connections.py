"""HTTP connections that send nothing before the machine at their other end is known to be allowed."""

import socket
from typing import Any

import requests  # type: ignore[import-untyped]
from requests.adapters import HTTPAdapter  # type: ignore[import-untyped]
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool

from trainer.downloads.addresses import Rule

PUBLIC = Rule()
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
    if not rule.private:
        session.mount("https://", _Adapter())
        session.mount("http://", _Adapter())
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


class _Http(HTTPConnection):
    def _new_conn(self) -> socket.socket:
        return _checked(super()._new_conn(), self.host)


class _Https(HTTPSConnection):
    def _new_conn(self) -> socket.socket:
        return _checked(super()._new_conn(), self.host)


class _HttpPool(HTTPConnectionPool):
    ConnectionCls = _Http


class _HttpsPool(HTTPSConnectionPool):
    ConnectionCls = _Https


class _Adapter(HTTPAdapter):  # type: ignore[misc]
    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        super().init_poolmanager(*args, **kwargs)
        self.poolmanager.pool_classes_by_scheme = {"http": _HttpPool, "https": _HttpsPool}
