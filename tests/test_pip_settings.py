"""requirements/uv.py: which of pip's settings uv is given. That they arrive is in test_install.py."""

import importlib.util

from tests.test_makefile import ROOT

SPEC = importlib.util.spec_from_file_location("uv_as_pip", ROOT / "requirements" / "uv.py")
uv_as_pip = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(uv_as_pip)


def test_settings_are_those_of_pip_install_and_variables_win():
    listed = """:env:.timeout='60.5'
global.index-url='https://old'
global.timeout='5'
install.index-url='https://new'
download.index-url='https://other'
global.extra-index-url='\\nhttps://a\\nhttps://b'
"""
    settings = uv_as_pip.pip_settings(listed)
    assert settings == {
        "index-url": "https://new",
        "timeout": "60.5",
        "extra-index-url": "\nhttps://a\nhttps://b",
    }
    assert uv_as_pip.uv_variables(settings, {"SSL_CERT_FILE": "mine"}) == {
        "UV_DEFAULT_INDEX": "https://new",
        "UV_INDEX": "https://a https://b",
        "UV_INDEX_STRATEGY": "unsafe-best-match",
        "UV_HTTP_TIMEOUT": "60",
    }


def test_what_is_set_for_uv_comes_first():
    settings = {
        "index-url": "https://pip",
        "cert": "pip.pem",
        "proxy": "http://pip",
        "timeout": "9",
        "client-cert": "c",
    }
    environ = {"UV_INDEX_URL": "https://uv", "SSL_CERT_DIR": "certs", "https_proxy": "http://mine"}
    assert uv_as_pip.uv_variables(settings, environ | {"UV_HTTP_TIMEOUT": "7"}) == {"SSL_CLIENT_CERT": "c"}
    assert uv_as_pip.uv_variables(settings, {}) == {
        "UV_DEFAULT_INDEX": "https://pip",
        "SSL_CERT_FILE": "pip.pem",
        "ALL_PROXY": "http://pip",
        "UV_HTTP_TIMEOUT": "9",
        "SSL_CLIENT_CERT": "c",
    }
