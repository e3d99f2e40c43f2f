import pytest

from pipeline.graph.environment import Environment
from trainer.errors import UserError

ADDRESS = "night.shift+saliency@lab.example.org"


@pytest.mark.parametrize("count", [0, 1, 3])
def test_up_to_three_addresses_are_told(count):
    assert len(Environment("mine", notify=[ADDRESS] * count).notify) == count


def test_fourth_address_is_refused():
    with pytest.raises(UserError, match="notify has 4 addresses, but Vertex AI sends to at most 3"):
        Environment("mine", notify=[ADDRESS] * 4)


@pytest.mark.parametrize(
    "address",
    ["", "lab", "lab@", "@example.org", "a@b", "a b@c.org", "a@b.org,c@d.org", "<a@b.org>", "a@.org", "a@@b.org"],
)
def test_text_that_is_no_address_is_refused(address):
    with pytest.raises(UserError, match="which is not an e-mail address"):
        Environment("mine", notify=[address])
