"""What a page may load: its own folder or host, and public addresses."""

import pathlib

import pytest

from studio.browser import may_load

NAMES = {"example.org": ["93.184.215.14"], "inside.example.org": ["93.184.215.14", "10.0.0.5"]}
"""Host -> the IP addresses that its name leads to; others lead nowhere."""


def is_allowed(page, address):
    return may_load(page, address, lambda host: NAMES.get(host, []))


@pytest.mark.parametrize(
    "page",
    ["http://localhost:3000/", "http://10.0.0.5/a", "https://example.org/", pathlib.Path("/a/b.html").as_uri()],
)
@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("https://example.org/a.png?b", True),
        ("http://example.org:8080/", True),
        ("https://1.1.1.1/", True),
        ("https://unknown.example.org/", True),  # a proxy may know it; without one nothing comes of it
        ("data:image/png;base64,", True),
        ("blob:null/1", True),
        ("about:srcdoc", True),
        ("https://inside.example.org/", False),
        ("http://169.254.169.254/computeMetadata/", False),
        ("http://127.0.0.1:8080/", False),
        ("http://127.1/", False),
        ("http://[::1]/", False),
        ("http://[::ffff:192.168.0.1]/", False),
        ("http://metadata.google.internal/", False),
        ("http://name.localhost/", False),
        ("http://router/", False),
        ("http://127.0.0.1\\@example.org/", False),
        ("http://[/", False),
        ("ftp://example.org/", False),
        ("chrome://version/", False),
        (pathlib.Path("/etc/passwd").as_uri(), False),
        ("file:////etc/passwd", False),
        ("file://example.org/a/c.png", False),
    ],
)
def test_public_addresses_are_allowed_and_no_others(page, address, expected):
    assert is_allowed(page, address) == expected


@pytest.mark.parametrize(
    ("page", "address", "expected"),
    [
        ("http://localhost:3000/", "http://localhost:5000/api", True),
        ("http://localhost:3000/", "http://127.0.0.1:3000/", False),
        ("http://10.0.0.5/", "https://10.0.0.5/a", True),
        ("http://10.0.0.5/", "http://10.0.0.6/a", False),
        ("https://inside.example.org/", "https://inside.example.org/a", True),
        ("https://inside.example.org/", "ftp://inside.example.org/a", False),
    ],
)
def test_a_page_may_load_its_own_host_wherever_that_is(page, address, expected):
    assert is_allowed(page, address) == expected


@pytest.fixture
def folder(tmp_path):
    """A page beside a picture, links and a folder, and what is not its own above it."""
    own = tmp_path / "a page"
    (own / "sub").mkdir(parents=True)
    for name in ("a page/page.html", "a page/a.png", "a page/sub/b.png", "secret.png", "a page.png"):
        (tmp_path / name).touch()
    (own / "inward.png").symlink_to("sub/b.png")
    (own / "outward.png").symlink_to(tmp_path / "secret.png")
    (own / "loop.png").symlink_to("loop.png")
    (own / "linked.html").symlink_to(tmp_path / "secret.png")
    return own


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("page.html", True),
        ("a.png", True),
        ("sub/b.png?1#2", True),
        ("sub/../a.png", True),
        ("missing.png", True),
        ("inward.png", True),
        ("outward.png", False),
        ("linked.html", False),
        ("../secret.png", False),
        ("%2e%2e/secret.png", False),
        ("..%2fsecret.png", False),
        ("../a%20page.png", False),
        ("..", False),
        ("a%00.png", False),
    ],
)
def test_a_file_may_load_what_is_below_its_folder(folder, name, expected):
    assert is_allowed((folder / "page.html").as_uri(), f"{folder.as_uri()}/{name}") == expected


def test_a_page_that_is_a_link_is_shown(folder):
    page = (folder / "linked.html").as_uri()
    assert is_allowed(page, page)
    assert is_allowed(page, f"{page}#part")
