"""Run uv with the settings of pip: `.venv/bin/python requirements/uv.py pip sync ...`.

uv reads neither pip's configuration files nor its PIP_* variables. Behind a mirror or a proxy that is set up for
pip, it would find no packages. What you set for uv itself (UV_*, SSL_CERT_FILE, HTTPS_PROXY) comes first.
"""

import ast
import os
import pathlib
import ssl
import subprocess
import sys
from collections.abc import Mapping

SECTIONS = ("global", "install", ":env:")
"""Where pip looks for a setting of `pip install`; the last one wins."""


def pip_settings(listed: str) -> dict[str, str]:
    """Name and value of each setting that holds for `pip install`, from the output of `pip config list`."""
    found: dict[tuple[str, str], str] = {}
    for line in listed.splitlines():
        key, _, value = line.partition("=")
        section, _, name = key.rpartition(".")
        if section in SECTIONS:
            found[section, name] = ast.literal_eval(value)
    return {name: found[section, name] for section in SECTIONS for each, name in found if each == section}


def uv_variables(settings: Mapping[str, str], environ: Mapping[str, str]) -> dict[str, str]:
    """The environment variables that give uv pip's `settings`, without those that `environ` decides already."""
    wanted = {}
    if not {"UV_DEFAULT_INDEX", "UV_INDEX_URL", "UV_INDEX", "UV_EXTRA_INDEX_URL"} & set(environ):
        wanted |= _indexes(settings)
    if not {"SSL_CERT_FILE", "SSL_CERT_DIR", "UV_SYSTEM_CERTS", "UV_NATIVE_TLS"} & set(environ):
        wanted |= _certificates(settings)
    places = [_local(place) for place in settings.get("find-links", "").split()]
    wanted["UV_FIND_LINKS"] = ",".join(place for place in places if "://" in place or pathlib.Path(place).exists())
    wanted["UV_INSECURE_HOST"] = " ".join(settings.get("trusted-host", "").split())
    wanted["SSL_CLIENT_CERT"] = _local(settings.get("client-cert", ""))
    wanted["UV_HTTP_TIMEOUT"] = settings.get("timeout", settings.get("default-timeout", "")).partition(".")[0]
    if settings.get("keyring-provider") == "subprocess":
        wanted["UV_KEYRING_PROVIDER"] = "subprocess"
    if not {"HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY"} & {name.upper() for name in environ}:
        wanted["ALL_PROXY"] = settings.get("proxy", "")
    return {name: value for name, value in wanted.items() if value and name not in environ}


def _indexes(settings: Mapping[str, str]) -> dict[str, str]:
    wanted = {"UV_DEFAULT_INDEX": settings.get("index-url", "")}
    if more := settings.get("extra-index-url", "").split():
        # As pip does it: any of the indexes may have the pinned version, not only the first that knows the name.
        wanted |= {"UV_INDEX": " ".join(more), "UV_INDEX_STRATEGY": "unsafe-best-match"}
    return wanted


def _certificates(settings: Mapping[str, str]) -> dict[str, str]:
    if "cert" in settings:
        return {"SSL_CERT_FILE": _local(settings["cert"])}
    # Company proxies put their certificate into the system's store, which pip reads and uv does not by itself. A
    # bare container may have an empty store; uv then keeps to its own certificates.
    paths = ssl.get_default_verify_paths()
    store = paths.cafile or (paths.capath and any(pathlib.Path(paths.capath).iterdir()))
    return {"UV_SYSTEM_CERTS": "true"} if store or sys.platform == "darwin" else {}


def _local(place: str) -> str:
    return str(pathlib.Path(place).expanduser()) if place and "://" not in place else place


def main(arguments: list[str]) -> None:
    """Become uv with these arguments; does not return."""
    pip = [sys.executable, "-m", "pip", "config", "list"]
    finished = subprocess.run(pip, stdout=subprocess.PIPE, text=True)
    if finished.returncode:
        sys.exit(finished.returncode)  # pip has said what is wrong with its settings
    settings = pip_settings(finished.stdout)
    if settings.get("no-index", "").lower() in {"1", "true", "yes", "on"}:
        arguments = [*arguments, "--no-index"]
    command = [str(pathlib.Path(sys.executable).parent / "uv"), *arguments]
    os.execve(command[0], command, os.environ | uv_variables(settings, os.environ))


if __name__ == "__main__":
    main(sys.argv[1:])
