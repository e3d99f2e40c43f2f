"""The images of a page: their order, and in Chromium sorting, enlarging and the divider, with keys alone."""

import numpy as np
import pytest

from tests.browser import Watched
from trainer.evaluation.per_image import PerImage
from trainer.reports import gallery, report


def table(scores, others):
    images = [f"{index}.png" for index in range(len(scores))]
    columns = {"candidate": {"nss": np.array(scores)}, "champion": {"nss": np.array(others)}}
    return PerImage(images, columns)


@pytest.mark.parametrize(
    ("order", "expected"),
    [(gallery.BEST, "2013"), (gallery.WORST, "1023"), (gallery.DIFFERENCE, "1203")],
)
def test_images_are_sorted_and_one_without_a_score_is_last(order, expected):
    scores = table([1.0, 0.5, 2.0, np.nan], [1.1, 3.0, 1.0, np.nan])
    examples = [gallery.GalleryImage(image, {}) for image in scores.images]
    models = {"candidate": "candidate", "champion": "default"}
    described = gallery.describe_gallery(examples, scores, models, "nss", order, ("A", "B"), {})
    assert "".join(example["image"][0] for example in described["examples"]) == expected
    texts = {example["image"]: example["text"] for example in described["examples"]}
    assert texts["0.png"] == "NSS: candidate 1.000, default 1.100"
    assert texts["3.png"] == "NSS: candidate \N{EN DASH}, default \N{EN DASH}"
    assert [metric["name"] for metric in described["metrics"]] == ["nss"]


@pytest.fixture(scope="module")
def address(evaluated, tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "report.html"
    report.write_report(evaluated, path)
    return path.as_uri()


@pytest.fixture
def page(browser, address):
    context = browser.new_context(viewport={"width": 390, "height": 844})
    watched = Watched(context, address)
    assert not watched.page.locator(".gallery").first.is_visible()  # it is long
    watched.page.locator("summary", has_text="images").first.click()
    yield watched.page
    assert watched.troubles == []
    context.close()


def images(page):
    """The names of the images of the first dataset, in the order of the page."""
    return page.locator(".gallery").first.locator("article code").all_text_contents()


def test_page_is_no_wider_than_a_phone(page):
    assert page.evaluate("document.documentElement.scrollWidth") == 390


def test_images_are_sorted_by_any_metric(page, evaluation):
    scores = {each.image: each.scores for each in evaluation.datasets["salicon"].pictures}
    metric, order = page.locator(".gallery").first.locator("select").all()
    for name, which, sign in (("nss", "best", -1), ("sim", "worst", 1), ("kld", "best", 1)):
        metric.select_option(name)
        order.select_option(which)
        ranks = [sign * round(scores[image]["candidate"][name], 4) for image in images(page)]
        assert ranks == sorted(ranks)
        assert len(ranks) == len(scores)
    order.select_option("difference")
    first = scores[images(page)[0]]
    differences = [abs(each["candidate"]["kld"] - each["champion"]["kld"]) for each in scores.values()]
    assert abs(first["candidate"]["kld"] - first["champion"]["kld"]) == pytest.approx(max(differences), abs=1e-3)
    text = page.locator(".gallery").first.locator("article .soft").first.text_content()
    kld = first["candidate"]["kld"]
    assert text.startswith("KLD: candidate ")
    assert float(text.split()[2].strip(",")) == pytest.approx(kld, abs=1e-3)


def test_an_image_is_enlarged_and_divided_with_keys_alone(page):
    button = page.get_by_role("button", name="Enlarge").first
    button.focus()
    page.keyboard.press("Enter")
    divider = page.get_by_role("slider")
    assert divider.get_attribute("aria-valuetext") == "50% Ground truth, 50% Candidate"
    for _ in range(20):
        page.keyboard.press("ArrowRight")
    assert divider.get_attribute("aria-valuetext") == "70% Ground truth, 30% Candidate"
    left, right = page.locator("#viewer img").all()
    clip = left.evaluate("image => getComputedStyle(image).clipPath")
    assert clip in (
        "inset(0px 30% 0px 0px)",
        "inset(0px calc(30%) 0px 0px)",
        "inset(0px calc(100% - 70%) 0px 0px)",
    )
    sources = page.locator("article").first.locator("img").all()
    assert left.get_attribute("src") == sources[1].get_attribute("src")
    assert right.get_attribute("src") == sources[2].get_attribute("src")
    box = page.locator(".split").bounding_box()
    assert box["width"] > 250
    assert box["height"] > 100
    page.get_by_label("Left").select_option("Stimulus")
    assert left.get_attribute("src") == sources[0].get_attribute("src")
    page.get_by_role("button", name="Next").click()
    assert page.locator("#viewer-name").text_content() == images(page)[1]
    assert page.get_by_label("Left").input_value() == "Stimulus"
    page.keyboard.press("Escape")
    assert not page.locator("#viewer").is_visible()
