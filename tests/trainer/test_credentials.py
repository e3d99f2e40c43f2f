import os

import pytest

from trainer import credentials


@pytest.fixture
def elsewhere(monkeypatch, tmp_path):
    """A machine that is not Google's."""
    for name in list(os.environ):
        if name.startswith(credentials.ON_GOOGLE):
            monkeypatch.delenv(name)
    monkeypatch.setattr(credentials, "PRODUCT_NAME", tmp_path / "product_name")


def limits():
    """The limits of the search during and after it."""
    with credentials.brief_search():
        within = {name: os.environ.get(name) for name in credentials.BRIEF}
    return within, {name: os.environ.get(name) for name in credentials.BRIEF}


NONE = dict.fromkeys(credentials.BRIEF)


def test_search_is_brief_elsewhere_and_leaves_no_variables(elsewhere):
    assert limits() == (credentials.BRIEF, NONE)


@pytest.mark.parametrize("variable", ["KUBERNETES_SERVICE_HOST", "AIP_MODEL_DIR"])
def test_search_in_containers_of_google_has_the_limits_of_the_library(elsewhere, monkeypatch, variable):
    monkeypatch.setenv(variable, "any")
    assert limits() == (NONE, NONE)


@pytest.mark.parametrize(("product", "within"), [("Google Compute Engine\n", NONE), ("Laptop", credentials.BRIEF)])
def test_machines_of_google_are_known_by_their_product_name(elsewhere, tmp_path, product, within):
    (tmp_path / "product_name").write_text(product)
    assert limits() == (within, NONE)


def test_limits_of_the_user_are_kept(elsewhere, monkeypatch):
    monkeypatch.setenv("GCE_METADATA_TIMEOUT", "7")
    within, after = limits()
    assert within == {"GCE_METADATA_TIMEOUT": "7", "GCE_METADATA_DETECT_RETRIES": "1"}
    assert after == {"GCE_METADATA_TIMEOUT": "7", "GCE_METADATA_DETECT_RETRIES": None}
