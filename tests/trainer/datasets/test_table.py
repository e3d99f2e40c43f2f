"""The table of datasets: what people must know before they use one."""

import pathlib
import re

import pytest

from trainer.datasets.table import DATASETS

NOTICE = pathlib.Path(__file__).parents[3] / "NOTICE"
PUBLISHED = [name for name, row in DATASETS.items() if row.archives]


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_dataset_has_licence_citation_and_homepage(name):
    row = DATASETS[name]
    assert row.licence.endswith(".")
    assert re.search(r"[^:]+: .+\. .*\b(19|20)\d\d\b.*\.$", row.citation), "authors: title. venue and year."
    assert row.homepage.startswith(("https://", "http://"))


@pytest.mark.parametrize("name", PUBLISHED)
def test_notice_has_the_citation(name):
    assert DATASETS[name].citation in " ".join(NOTICE.read_text(encoding="utf-8").split())


def test_published_digests_have_their_algorithms_lengths():
    digests = [each.digest for row in DATASETS.values() for each in row.archives if each.digest]
    assert digests
    for digest in digests:
        assert re.fullmatch(r"md5:[0-9a-f]{32}|sha256:[0-9a-f]{64}", digest)


def test_what_is_fetched_over_plain_http_has_a_digest():
    plain = [each for row in DATASETS.values() for each in row.archives if each.address.startswith("http://")]
    assert [each.address for each in plain if not each.digest] == []
