import ipaddress

import pytest

from trainer.downloads.addresses import RefusedError, Rule, is_public
from trainer.downloads.given import addresses_in, checked_addresses
from trainer.errors import UserError
from trainer.text import SHOWN, shown

PRIVATE = (
    *("127.0.0.1", "127.8.9.10", "10.0.0.1", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1"),
    *("0.0.0.0", "255.255.255.255", "224.0.0.1", "192.0.0.192", "198.18.0.1", "168.63.129.16", "240.0.0.1"),
    *("::1", "::", "fe80::1", "fd00:ec2::254", "ff02::1", "::ffff:127.0.0.1", "::ffff:169.254.169.254"),
    *("::127.0.0.1", "64:ff9b::7f00:1", "64:ff9b:1::808:808", "2002:7f00:1::", "2002:a00:1::1", "fec0::1"),
    "2001:db8::1",
)
PUBLIC = ("8.8.8.8", "142.250.74.46", "2a00:1450:4001:80b::200e", "::ffff:8.8.8.8", "64:ff9b::808:808")


@pytest.mark.parametrize("address", PRIVATE)
def test_addresses_of_private_networks_are_not_public(address):
    assert not is_public(ipaddress.ip_address(address))
    host = f"[{address}]" if ":" in address else address
    with pytest.raises(RefusedError, match=r"private network, which is fetched only with private_sources=true"):
        Rule().check(f"https://{host}/set.zip")
    with pytest.raises(RefusedError, match="leads to"):
        Rule().check_peer("data.example.org", address)
    Rule(private=True).check(f"https://{host}/set.zip")
    Rule(private=True).check_peer("data.example.org", address)


@pytest.mark.parametrize("address", PUBLIC)
def test_addresses_of_the_internet_are_public(address):
    assert is_public(ipaddress.ip_address(address))
    Rule().check(f"https://{f'[{address}]' if ':' in address else address}/set.zip")
    Rule().check_peer("data.example.org", address)


@pytest.mark.parametrize(
    "host",
    [
        *("2130706433", "0x7f000001", "0177.0.0.1", "127.1", "0x7f.1", "localhost", "LOCALHOST.", "a.localhost"),
        *("metadata.google.internal", "metadata", "printer.local", "nas.lan", "fe80::1%25eth0"),
    ],
)
def test_other_spellings_and_names_of_private_machines_are_refused(host):
    with pytest.raises(RefusedError):
        Rule().check(f"https://{f'[{host}]' if ':' in host else host}/set.zip")


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("ftp://data.example.org/a.zip", "only https:// is fetched"),
        ("https:///a.zip", "only https:// is fetched"),
        ("http://data.example.org/a.zip", "http is fetched only with private_sources=true"),
        (
            "https://me:secret@data.example.org/a.zip",
            "^the address of data.example.org has a password",
        ),
        ("https://data.example.org/a\x1b[31m.zip", "characters that none may have"),
        ("https://data.example.org\\@127.0.0.1/a.zip", "characters that none may have"),
        ("https://[::1/a.zip", "this is no address|private network"),
    ],
)
def test_addresses_that_are_not_fetched_are_named(address, message):
    with pytest.raises(UserError, match=message) as caught:
        Rule().check(address)
    assert str(caught.value).isprintable()


def test_http_is_for_the_places_of_the_table_and_what_they_lead_to():
    place = "http://saliency.mit.edu/trainSet.zip"
    rule = Rule(http=frozenset([place]))
    rule.check(place)
    rule.check("http://www.saliency.mit.edu/other.zip", place)
    rule.check("https://saliency.mit.edu/trainSet.zip", place)
    for address, before in (("http://saliency.mit.edu/other.zip", ""), (place[:-1], "https://data.example.org/")):
        with pytest.raises(RefusedError):
            rule.check(address, before)


def test_text_of_a_server_is_one_short_printable_line():
    assert shown("a\x1b[2J\r\nb\u202e\u200bc\x00") == "a [2J b c"
    assert len(shown("x" * 10_000)) == SHOWN


def test_a_source_has_one_address_or_several_or_is_a_path():
    drive, web = "drive:1g8j-hTT-51IG1UF", "https://data.example.org/maps.zip"
    assert addresses_in(f"{drive}  {web}") == [drive, web]
    assert addresses_in("gs://bucket/two words.zip") == ["gs://bucket/two words.zip"]
    for path in ("", "~/data", "/data/my set", "drives/set.zip"):
        assert addresses_in(path) == []
    link = "https://drive.google.com/file/d/1g8j-hTT-51IG1UF/view?usp=sharing"
    assert checked_addresses(link, Rule()) == [drive]
    assert checked_addresses("https://drive.google.com/open?id=1g8j-hTT-51IG1UF", Rule()) == [drive]


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("ftp://h.org/a.zip", "addresses that begin with ftp:// are not fetched"),
        ("file:" + "///etc/passwd", "addresses that begin with file:// are not fetched"),
        ("https://h.org/a.zip maps.zip", r"source 'maps.zip': this is no address; give https://"),
        ("gs://bucket/folder https://h.org/a.zip", "source gs://bucket/folder is no archive"),
        ("drive:../../x", "this is no id of a file on Google Drive"),
        ("https://drive.google.com/drive/folders/abc", "no link to a file on Google Drive; share an archive"),
        ("https://169.254.169.254/a.zip", "169.254.169.254 is an address of a private network"),
    ],
)
def test_a_source_that_is_not_fetched_is_refused_before_anything_is_asked(source, message):
    with pytest.raises(UserError, match=message):
        checked_addresses(source, Rule())
