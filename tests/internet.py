"""Fixtures: a web server on loopback, alone and in the place of the public internet."""

import pytest

from tests import site as sites
from trainer.datasets import servers


@pytest.fixture
def site(monkeypatch):
    """A web server on loopback; the pauses between attempts are short."""
    monkeypatch.setattr(servers, "PAUSE_S", 0.001)
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    with sites.running() as running:
        yield running


@pytest.fixture
def internet(site, monkeypatch, tmp_path_factory):
    """The public internet: all hosts of the table of datasets, and others, are the site."""
    hosts = (
        *("drive.google.com", "drive.usercontent.google.com", "accounts.google.com", "people.csail.mit.edu"),
        *("saliency.mit.edu", "saliencydetection.net", "cbs.ic.gatech.edu", "github.com", "codeload.github.com"),
        *("www.dropbox.com", "dl.dropboxusercontent.com", "data.example.org", "zenodo.org"),
    )
    with sites.internet(site, hosts, tmp_path_factory.mktemp("trusted")) as variables:
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        yield site
