"""What all pages share: their style, their words, and the trainings of models as columns of a table."""

import pathlib

from trainer.data.settings import SAMPLE
from trainer.models import provenance
from trainer.reports import pages
from trainer.reports.pages import training_facts, write_page

FIRST = {"dataset": "salicon", "source": "gs://data/salicon"}
SECOND = {"dataset": "osie", "source": "gs://data/osie", "base_model": FIRST}
THIRD = {"dataset": "custom", "source": "mine", "base_model": SECOND}


def test_columns_say_what_each_training_was_on_and_which_models_share_it():
    found = training_facts({"Candidate": THIRD, "Current default": SECOND})
    assert list(found) == [
        "Candidate, training 3: mine",
        "Candidate and Current default, training 2: osie",
        "Candidate and Current default, training 1: salicon",
    ]
    assert dict(found["Candidate, training 3: mine"]) == {"dataset": "custom", "source": "mine"}


def test_a_default_that_the_candidate_was_not_trained_from_has_a_column_of_its_own():
    generated_shapes = {"dataset": "salicon", "source": SAMPLE}
    assert list(training_facts({"Candidate": FIRST, "Current default": generated_shapes, "Other": None})) == [
        "Candidate: salicon",
        f"Current default: {provenance.SHAPES}",
    ]


def test_what_is_between_backticks_is_code_in_each_page(tmp_path):
    values = {"title": "A", "head": [("Fact", "run `a <b>`, then `c`")], "questions": []}
    write_page(tmp_path / "page.html", "readings.html.jinja", **values)
    text = (tmp_path / "page.html").read_text()
    assert "run <code>a &lt;b&gt;</code>, then <code>c</code>" in text
    templates = list((pathlib.Path(pages.__file__).parent / "templates").glob("*.jinja"))
    assert len(templates) > 10
    assert not [path.name for path in templates if "`" in path.read_text()]


def test_all_pages_have_one_style():
    templates = pathlib.Path(pages.__file__).parent / "templates"
    macros = {"base.html.jinja", "parts.html.jinja", "scores.html.jinja", "gallery.html.jinja"}
    others = {path.name: path.read_text() for path in templates.glob("*.jinja") if path.name not in macros}
    assert all(text.startswith('{% extends "base.html.jinja" %}') for text in others.values())
