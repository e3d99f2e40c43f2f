import time

import pytest

from tests.refusals import refused
from trainer.datasets.published_archives import Origin
from trainer.errors import SettingError
from trainer.places.places import WebPlace, source_places, without_queries
from trainer.texts import SHOWN, shown


def checked(source, allow_http=False):
    """The places of a source, as texts, if all may be fetched."""
    places = source_places(source)
    Origin.check(places, allow_http)
    return list(map(str, places))


@pytest.mark.parametrize(
    ("source", "named"),
    [
        ("ftp://h.org/a.zip", "ftp://h.org/a.zip"),
        ("file:" + "///etc/passwd", "file:"),
        ("https:///a.zip", "a.zip"),
        ("https://h.org/a.zip maps.zip", "'maps.zip'"),
        ("http://h.org/a.zip", "private_sources"),
        ("https://me:secret@h.org/a.zip", "h.org"),
        ("https://h.org/a\x1b[31m.zip", None),
        ("https://h.org\\@127.0.0.1/a.zip", None),
        ("https://[::1/a.zip", None),
        ("https://drive.google.com/drive/folders/abc", "https://drive.google.com/drive/folders/abc"),
    ],
)
def test_a_source_that_is_not_fetched_is_named_before_anything_is_asked(source, named):
    with refused(SettingError, *filter(None, [named])) as caught:
        checked(source)
    assert str(caught.value).isprintable()
    assert "secret" not in str(caught.value)


def test_http_is_for_the_places_of_the_table_unless_it_is_allowed():
    place, other = "http://saliency.mit.edu/trainSet.zip", "http://10.0.0.1/a.zip"
    assert checked(place) == [place]
    assert checked(other, allow_http=True) == [other]


def test_text_of_a_server_is_one_short_printable_line():
    assert shown("a\x1b[2J\r\nb\u202e\u200bc\x00") == "a [2J b c"
    assert len(shown("x" * 10_000)) == SHOWN


def test_neither_queries_nor_passwords_are_shown():
    assert WebPlace("https://me:secret@h.org/a.zip?key=secret#x").shown == "https://h.org/a.zip"
    assert without_queries("see https://h.org/a.zip?key=secret, twice") == "see https://h.org/a.zip twice"
    assert WebPlace("svn+ssh://me:secret@h.org/a").shown == "svn+ssh://h.org/a"


@pytest.mark.parametrize("scheme", ["https", "HTTPS", "hTTp"])
@pytest.mark.parametrize("secret", ["h.org/a.zip?sig=secret", "h.org/a.zip#secret", "me:secret@h.org/a.zip"])
def test_a_key_is_cut_from_a_text_whatever_the_case_of_the_scheme(scheme, secret):
    assert without_queries(f"'{scheme}://{secret}, ok") in (
        f"'{scheme}://h.org/a.zip{end} ok" for end in (",", "")
    )


def test_the_scheme_of_an_address_that_is_fetched_is_in_lower_case():
    assert checked("HTTPS://h.org/A.zip?Key=B") == ["https://h.org/A.zip?Key=B"]
    with refused(SettingError, "private_sources"):
        checked("HTTP://h.org/a.zip")


@pytest.mark.parametrize("part", ["x", "https://", "https://a", "https://a@", "//a", "https://a?"])
def test_keys_are_cut_in_time_linear_in_the_length_of_a_text(part):
    def seconds(n):
        text, begin = part * n, time.process_time()
        without_queries(text)
        return time.process_time() - begin

    short, long = (min(seconds(n) for _ in range(3)) for n in (1_000, 8_000))
    assert long < 8 * 3 * max(short, 1e-5)  # quadratic: 64 times


def test_a_link_to_google_drive_is_the_file_that_it_names():
    drive, web = "drive:1g8j-hTT-51IG1UF", "https://data.example.org/maps.zip"
    assert checked(f"{drive}  {web}") == [drive, web]
    link = "https://drive.google.com/file/d/1g8j-hTT-51IG1UF/view?usp=sharing"
    assert checked(link) == [drive]
    assert checked("https://drive.google.com/open?id=1g8j-hTT-51IG1UF") == [drive]
