import re

from pipeline.graph import form


def test_estimates_are_said_to_be_the_ends_at_worst():
    """Fine-tuning on an L4 takes 6 to 8 minutes by the estimate, and 0.10 to 0.13 USD."""
    (shown,) = re.findall(r"at most: (.*?)\. All:", form.descriptions()["accelerator"])
    assert shown.startswith("l4 (8 min, 0.13 USD), ")
    prices = [float(price) for price in re.findall(r"([\d.]+) USD", shown)]
    assert len(prices) >= 6
    assert prices == sorted(prices)
