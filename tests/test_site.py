"""The site that `make docs` builds: how pages are prepared, and that lost pages and broken links are found."""

import pathlib
import tomllib

import pytest

from docs.site import build, links

ROOT = pathlib.Path(__file__).parent.parent
FOLDER = ROOT / "docs" / "site"
NOT_FOR_READERS = {"docs/log.md"}
"""Pages without a place in the navigation: the notebook of experiments. Nor have the decisions (docs/adr/) one."""


def pages(navigation):
    """The pages of a part of the navigation, in its order."""
    for entry in navigation:
        for value in entry.values():
            yield from [value] if isinstance(value, str) else pages(value)


def test_navigation_has_every_page_for_readers_and_no_other():
    settings = tomllib.loads((FOLDER / "zensical.toml").read_text())
    listed = list(pages(settings["project"]["nav"]))
    guides = {path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").glob("*.md")} - NOT_FOR_READERS
    others = set(build.PAGES) - {"README.md", "tests/golden/README.md"}
    assert sorted(listed) == sorted(guides | others | {"index.md", "reference/api.md", "reference/modules.md"})


def test_modules_of_the_reference_exist():
    for name in build.API + build.MODULES:
        assert ROOT.joinpath(*name.split(".")).with_suffix(".py").is_file(), name


@pytest.mark.parametrize(
    ("text", "prepared"),
    [
        ("It has\n- one\n- two\n", "It has\n\n- one\n- two\n"),
        ("- one\n  more\n- two\n", "- one\n  more\n- two\n"),
        ("It has\n| a |\n|---|\n| b |\n", "It has\n\n| a |\n|---|\n| b |\n"),
        ("```\nIt has\n- one\n```\n", "```\nIt has\n- one\n```\n"),
        ("1. Do\n   ```sh\n   make\n   ```\n2. Then\n", "1. Do\n    ```sh\n    make\n    ```\n2. Then\n"),
    ],
    ids=["list", "items", "table", "code", "code in a list"],
)
def test_page_is_written_as_python_markdown_reads_it(text, prepared):
    assert build.readable(text) == prepared


def test_files_that_a_page_links_to_are_taken_along_without_pages_and_addresses(tmp_path):
    for name in ("a.png", "other.md"):
        (tmp_path / name).touch()
    text = "![a](a.png) [b](other.md) [c](https://example.org/a.png) [d](missing.png)"
    assert build.linked_files(tmp_path / "page.md", text) == {tmp_path / "a.png"}


def test_links_that_lead_nowhere_are_found(tmp_path):
    (tmp_path / "there.html").write_text('<p id="here">')
    (tmp_path / "index.html").write_text(
        '<a href="there.html#here"><a href="https://example.org"><a href="there.html#gone">'
        '<a href="gone.html"><img src="gone.png"><a href="#top">'
    )
    found = links.broken(tmp_path)
    assert [line.split(": ")[1] for line in found] == ["there.html#gone", "gone.html", "gone.png", "#top"]
