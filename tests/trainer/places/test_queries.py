import html
import json
import shlex
import urllib.parse

import pytest
import requests
import urllib3

from trainer.places.queries import HIDDEN, SHORTEST_VALUE, Queries

SECRETS = (
    "TOPSECRET77",
    'a<bTOPSECRET77"c',
    "a'b\"TOPSECRET77\\e&f=g",
    "a%2FTOPSECRET77+%3c",
    "äTOPSECRET77~|^`{}",
)
WRITTEN = {
    "as it is": str,
    "prepared": lambda address: requests.Request("GET", address).prepare().url,
    "parsed": lambda address: urllib3.util.parse_url(address).request_uri,
    "quoted": lambda address: urllib.parse.quote(address, safe=""),
    "unquoted": urllib.parse.unquote,
    "as a parameter": lambda address: str(urllib.parse.parse_qs(urllib.parse.urlsplit(address).query)),
    "repr": lambda address: repr([address, "it's"]),
    "repr with both quotes": lambda address: repr(f"'\"{address}"),
    "JSON": json.dumps,
    "JSON in JSON": lambda address: json.dumps({"executor_input": json.dumps(address)}, ensure_ascii=False),
    "JSON of Go": lambda address: json.dumps(address).replace("<", "\\u003c").replace("&", "\\u0026"),
    "HTML": lambda address: html.escape(address),
    "a shell": lambda address: shlex.join(["fetch", address]),
    "without its end": lambda address: f"{address.partition('&f=g')[0]}&f...",
}


@pytest.mark.parametrize("written", WRITTEN)
@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize("scheme", ["https", "HTTPS", "http"])
def test_a_query_is_hidden_in_every_form_in_which_programs_write_an_address(scheme, secret, written):
    address = f"{scheme}://h.org:1/x.zip?sig={secret}"
    hidden = Queries([3, "", "gs://bucket/a", f"drive:1234567890 {address}"]).hide(
        f"see {WRITTEN[written](address)}, twice"
    )
    assert "SECRET" not in hidden
    assert HIDDEN in hidden
    assert hidden.startswith("see ")
    assert hidden.endswith(", twice")


@pytest.mark.parametrize("begin", ["\ufeffhttp://", '"https://', "<https://", "url:http://", "HtTp:/", "//", ""])
def test_the_query_of_a_mistyped_address_is_hidden(begin):
    address = f"{begin}127.0.0.1:1/x.zip?sig=SECRET77 SECRET78"
    assert "SECRET" not in Queries([address]).hide(f"{address} does not exist: SECRET77, SECRET78")


def test_a_short_query_is_hidden_where_it_is_a_query_and_other_words_stay():
    short = Queries(["https://h.org/x.zip?k=1"])
    assert short.hide("k=1 of /x.zip?k=1") == f"k=1 of /x.zip{HIDDEN}"
    value = "v" * SHORTEST_VALUE
    assert Queries([f"https://h.org/x.zip?key={value}&dl=1"]).hide(f"1 {value} 1") == f"1 {HIDDEN} 1"


@pytest.mark.parametrize(
    "value",
    ["", "pretrained", "gs://bucket/a?b=cccccccccc", "vertex://p/l?staging=gs://bucket/x", "https://h.org/"],
)
def test_what_is_no_web_address_with_a_query_hides_nothing(value):
    queries = Queries([value, 0.5])
    assert not queries
    assert queries.hide(f"{value} cccccccccc") == f"{value} cccccccccc"


def test_the_id_of_a_link_to_google_drive_stays_for_messages():
    link = "https://drive.google.com/uc?export=download&id=1g8j-hTT-51IG1UF&resourcekey=0-SECRET"
    hidden = Queries([link]).hide(f"download drive:1g8j-hTT-51IG1UF: {link}")
    assert hidden == f"download drive:1g8j-hTT-51IG1UF: https://drive.google.com/uc?{HIDDEN}"
