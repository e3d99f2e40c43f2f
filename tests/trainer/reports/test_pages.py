"""The trainings of models as columns of a table."""

from trainer.data.settings import SAMPLE
from trainer.models import provenance
from trainer.reports.pages import training_facts

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
