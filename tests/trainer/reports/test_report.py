"""The HTML pages: their content, and that they need no other file."""

import base64
import dataclasses
import html.parser
import io
import json
import pathlib
import re
import shutil

import pytest
from PIL import Image

from trainer import wording
from trainer.data import prepared_data
from trainer.evaluation.evaluation import Gain, Known
from trainer.metrics.metric_table import DENSITY, METRICS, metrics_that_need
from trainer.network import model_folder
from trainer.reports import ceiling_rows, report, score_tables, sentences
from trainer.reports.report import write_curve, write_preview, write_unneeded


class Page(html.parser.HTMLParser):
    """The references of a page, and the text of its table cells."""

    def __init__(self, path: pathlib.Path) -> None:
        super().__init__()
        self.references: list[str] = []
        self.tags: list[str] = []
        self.ids: list[str] = []
        self.cells: list[tuple[str, str]] = []
        self._cell: str | None = None
        self.text = path.read_text(encoding="utf-8")
        self.feed(self.text)

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        self.tags.append(tag)
        self.ids += [attributes["id"]] if "id" in attributes else []
        self.references += [attributes[key] for key in ("src", "srcset", "href", "data") if key in attributes]
        if tag == "td":
            self._cell = attributes.get("class") or ""

    def handle_data(self, data):
        if self._cell is not None:
            self.cells.append((data, self._cell))

    def handle_endtag(self, tag):
        if tag == "td":
            self._cell = None

    @property
    def pictures(self) -> list[str]:
        return [uri for uri in self.references if uri.startswith("data:image/")]

    def images(self) -> list[Image.Image]:
        return [Image.open(io.BytesIO(base64.b64decode(uri.split(",", 1)[1]))) for uri in self.pictures]


def assert_self_contained(page: Page) -> None:
    """The page loads nothing, links to its own parts only, and has styles for dark and for narrow screens."""
    anchors = [uri.removeprefix("#") for uri in page.references if uri.startswith("#")]
    assert len(page.pictures) + len(anchors) == len(page.references)
    assert set(anchors) <= set(page.ids)
    assert len(set(page.ids)) == len(page.ids)
    assert not {"link", "iframe"} & set(page.tags)
    assert "url(" not in page.text
    assert "@import" not in page.text
    assert "`" not in re.sub(r"<(script|style)>.*?</\1>", "", page.text, flags=re.DOTALL)
    for needed in ("prefers-color-scheme: dark", 'name="viewport"', "max-width: 40rem", '<html lang="en">'):
        assert needed in page.text
    for image in page.images():
        image.load()


@pytest.fixture(scope="module")
def page(evaluated, tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    report.write_report(evaluated, folder / "report.html")
    return Page(folder / "report.html")


def test_report_shows_every_mean_with_its_interval_and_marks_the_best(page, evaluation):
    salicon = evaluation.datasets["salicon"]
    models = salicon.models
    shown = iter(page.cells)
    for metric in METRICS:
        for model in models:
            text, classes = next(shown)
            low, high = salicon.intervals[model][metric]
            if shown_interval := score_tables.interval_text(metric, (low, high)):
                assert next(shown)[0] == shown_interval
            assert float(text.replace("\N{MINUS SIGN}", "-")) == pytest.approx(models[model][metric], abs=6e-4)
            # The ground truth is the candidate's prediction.
            assert ("best" in classes) == (model == "candidate"), (metric, model)


def test_report_is_one_file_with_the_decision_and_the_origins(page, evaluation):
    assert_self_contained(page)
    assert "Not decided" in page.text
    assert "this dataset has only maps" in page.text
    assert page.text.count('<th scope="row">train.epochs</th>') == 1
    assert evaluation.reason.replace("'", "&#39;") in page.text
    version, commit = evaluation.code_version.split("+")
    for fact in ("gs://bucket/salicon", "0123abcd", "train.epochs", f"<dd>{version}</dd>", f"<dd>{commit}</dd>"):
        assert fact in page.text
    assert re.search(r"<dt>Date</dt><dd>20\d\d-\d\d-\d\d \d\d:\d\d UTC</dd>", page.text)


@pytest.mark.parametrize(
    ("changes", "registers", "headline"),
    [
        ({"passed_baseline": False, "promote": False}, True, "Worse than the centre bias"),
        ({"promote": True}, True, "Becomes the default"),
        ({"promote": True}, False, "Would become the default"),
        ({"promote": False}, True, "Not promoted"),
        ({"promote": True, "model_configs": {}}, False, "Not compared with a default model"),
        ({"promote": True, "model_configs": {}, "run": "msinet-1"}, False, "Would become the default"),
    ],
)
def test_report_opens_with_the_verdict(changes, registers, headline, evaluation):
    both = {"passed_baseline": True, "end": "", "model_configs": {"candidate": None, "champion": None}}
    assert sentences.verdict(dataclasses.replace(evaluation, **(both | changes)), registers).headline == headline


GAIN = Gain(0.1, 0.05, 0.15, 0.001, 10, 8, 2)


@pytest.mark.parametrize(
    ("changes", "gain", "words"),
    [
        ({"promote": True, "beats_champion": True}, GAIN, "clearly better than"),
        ({"promote": True, "beats_champion": None}, None, "No default model"),
        ({"promote": True, "gate": "always"}, GAIN, "`always`"),
        ({"end": "challenger", "beats_champion": True}, GAIN, "generated shapes alone"),
        ({"beats_champion": False}, GAIN, "margin"),
        ({"beats_champion": False}, dataclasses.replace(GAIN, low=-0.1), "is not clearly better than"),
        ({"beats_champion": False}, dataclasses.replace(GAIN, low=-0.2, high=-0.1), "is clearly worse than"),
        ({"beats_champion": False, "gate_confidence": 0.0}, GAIN, "is not better than"),
        ({"end": "not decided"}, GAIN, "too few images"),
        ({"end": "disagree", "beats_champion": True}, GAIN, "but worse on"),
        ({"end": "held", "beats_champion": True}, GAIN, "but a person must answer"),
        ({"end": "held", "beats_champion": True, "known": Known("gone", 60)}, GAIN, "are gone"),
    ],
)
def test_verdict_says_why_without_a_number_of_a_metric(changes, gain, words, evaluation):
    decided = dataclasses.replace(evaluation.deciding, decisive_gain=gain)
    changes = {"passed_baseline": True, "promote": False, "end": "", "datasets": {"salicon": decided}, **changes}
    verdict = sentences.verdict(dataclasses.replace(evaluation, **changes))
    assert words in verdict.why
    assert ("The current default stays." in verdict.why) == (not changes["promote"])
    assert not {row.label for row in METRICS.values()} & set(re.findall(r"[\w/-]+", verdict.why))


def test_first_screen_has_the_verdict_the_way_to_people_and_six_images_before_any_table(page, evaluation):
    first = page.text.partition('<nav class="contents')[0]
    assert "<table" not in first
    assert evaluation.code_version.partition("+")[2] not in first
    assert first.index("Not decided") < first.index("% of the way to people (") < first.index("Predicted best")
    shown = first[first.index("Predicted best") :].split("Predicted worst")
    assert [part.count("<figure") for part in shown] == [3, 3]
    ranked = sorted(
        {each.image: each.scores["candidate"]["kld"] for each in evaluation.deciding.pictures}.items(),
        key=lambda pair: pair[1],
    )
    for part, (image, _) in zip(shown, (ranked[0], ranked[-1]), strict=True):
        assert part.index(f"People, {image}") < part.index(f"Candidate, {image}")
        assert re.search(r"Candidate, ([^\"]+)", part)[1] == image


def test_the_way_to_people_is_of_other_images_if_those_that_decide_name_no_observers(evaluation, store, tmp_path):
    report.write_report(
        store(tmp_path, dataclasses.replace(evaluation, decides="fixationadd1000")), tmp_path / "report.html"
    )
    first = (tmp_path / "report.html").read_text().partition("Predicted best")[0]
    assert "% of the way to people (" in first
    assert "KLD on validation images of salicon." in first
    del evaluation.datasets["salicon"]
    alone = store(tmp_path / "alone", dataclasses.replace(evaluation, decides="fixationadd1000"))
    report.write_report(alone, tmp_path / "report.html")
    assert "do not tell observers apart" in (tmp_path / "report.html").read_text()


def test_names_are_escaped(evaluation, store, tmp_path):
    del evaluation.datasets["fixationadd1000"]
    salicon = evaluation.datasets["salicon"]
    manifest = dataclasses.replace(salicon.manifest, source="gs://<b>bold</b>")
    evaluation.datasets["salicon"] = dataclasses.replace(salicon, manifest=manifest)
    evaluation = dataclasses.replace(evaluation, reason="The default, `<script>alert(1)</script>`, stays.")
    report.write_report(store(tmp_path, evaluation), tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "The default, <code>&lt;script&gt;alert(1)&lt;/script&gt;</code>, stays." in text
    assert "<script>alert" not in text
    assert "gs://&lt;b&gt;bold" in text


def test_preview_shows_counts_origin_licence_and_images(datasets, tmp_path):
    folder = shutil.copytree(datasets["salicon"], tmp_path / "set")
    told = {"licence": "Ours.", "citation": "A: B. C 2020.", "notes": ["x is 'gx'.", "2 rows <left out>."]}
    dataclasses.replace(prepared_data.Manifest.load(folder), **told).save(folder)
    write_preview(folder, tmp_path / "preview.html")
    page = Page(tmp_path / "preview.html")
    assert_self_contained(page)
    # A stimulus and its overlay for each of two and ten images, and the centre bias.
    assert len(page.pictures) == 2 * (2 + 10) + 1
    facts = ("Partial data", "10,000", "gs://bucket/salicon", f"48 {wording.TIMES} 64", "with fixations")
    told_facts = ("<dd>Ours.</dd>", "<dd>A: B. C 2020.</dd>", "<li>2 rows &lt;left out&gt;.</li>")
    assert all(fact in page.text for fact in (*facts, *told_facts))


def test_data_that_a_run_does_not_need_have_a_page_like_all_others(tmp_path):
    write_unneeded(tmp_path / "page.html")
    assert_self_contained(Page(tmp_path / "page.html"))


def history(folder: pathlib.Path, epochs: int) -> pathlib.Path:
    rows = [
        {
            "epoch": epoch,
            "steps": 50,
            "loss": 1 / epoch,
            "valid_loss": 0.5 + 0.1 * abs(epoch - 3),
            "seconds": 3000.0,
            "images_per_s": 2.5,
            "best": epoch <= 3,
        }
        for epoch in range(1, epochs + 1)
    ]
    (folder / model_folder.HISTORY).write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


@pytest.mark.parametrize(("epochs", "best"), [(1, "0.7000"), (5, "0.5000")])
def test_curve_shows_every_epoch_and_marks_the_best(epochs, best, tmp_path):
    write_curve(history(tmp_path, epochs), tmp_path / "curve.html")
    page = Page(tmp_path / "curve.html")
    assert_self_contained(page)
    assert page.text.count("<use ") == 2 * epochs + 1
    assert ">loss, nats</text>" in page.text
    assert f"Training: {epochs} epoch{'' if epochs == 1 else 's'}" in page.text
    assert [text for text, classes in page.cells if classes == "best"] == [best]
    assert len(page.cells) == 5 * epochs


def test_report_compares_each_model_with_people(evaluated, evaluation, tmp_path):
    report.write_report(evaluated, tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text()
    assert text.count("Compared with people</h3>") == 1  # of the two datasets, one has observers
    assert "10 images with 5 observers each" in text
    shares = evaluation.datasets["salicon"].ceiling.leave_one_out.shares
    for model in ("candidate", "champion"):
        low, high = (round(100 * getattr(shares[model]["nss"], end)) for end in ("low", "high"))
        assert f"({low} to {high})".replace("-", wording.MINUS) in text
    assert "Undefined for sAUC" in text
    rows = re.findall(r'class="reach-name"><b>([^<]+)</b>.*?<small>([^<]+)</small>', text)
    for label, protocol in rows:
        by_halves = label in {METRICS[metric].label for metric in metrics_that_need(DENSITY)}
        assert protocol == (ceiling_rows.HALF_HELD_OUT if by_halves else ceiling_rows.ONE_HELD_OUT)
    assert len(rows) == len(METRICS)
