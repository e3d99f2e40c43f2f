"""The scores that evaluations have in common."""

import pathlib

import numpy as np
import pytest

from trainer.errors import UserError
from trainer.evaluation.compare import Contestant, Measured, find_shared
from trainer.evaluation.per_image import CANDIDATE, CENTER_BIAS, PerImage

METRICS = ("nss", "cc", "kld")


def measured(
    images="abcd", offset=0.0, size=(48, 64), fingerprint="0123abcd", folder=None, metrics=METRICS, n_train=9
):
    values = np.array([ord(image) + offset for image in images], float)
    scores = {model: dict.fromkeys(metrics, values) for model in (CANDIDATE, CENTER_BIAS)}
    manifest = {"image_size": list(size), "fingerprint": fingerprint, "counts": {"train": n_train}}
    return Measured(PerImage(list(images), scores), manifest, folder)


def contestants(*sets):
    return [
        Contestant(f"m{index}", f"models/m{index}", None, evaluations, {"model": f"m{index}"})
        for index, evaluations in enumerate(sets)
    ]


def test_equal_images_need_no_note():
    place = pathlib.Path("data")
    shared = find_shared(contestants({"osie": measured()}, {"osie": measured(offset=1, folder=place)}))["osie"]
    assert shared.notes == []
    assert shared.folder == place
    assert shared.table.images == list("abcd")
    assert list(shared.table.scores) == ["m0", "m1", CENTER_BIAS]
    np.testing.assert_array_equal(shared.table.scores["m1"]["kld"] - shared.table.scores["m0"]["kld"], np.ones(4))


@pytest.mark.parametrize("stored", [("nss", "cc"), ()])
def test_centre_bias_without_a_metric_is_left_out_with_a_note(stored):
    of_first = measured()
    bias = {metric: of_first.table.scores[CENTER_BIAS][metric] for metric in stored}
    of_first.table.scores[CENTER_BIAS] = bias
    if not stored:
        del of_first.table.scores[CENTER_BIAS]
    shared = find_shared(contestants({"osie": of_first}, {"osie": measured()}))["osie"]
    assert list(shared.table.scores) == ["m0", "m1"]
    missing = "KLD" if stored else "NSS, CC, KLD"
    assert shared.notes == [f"Left out: the centre bias, of which no {missing} is stored."]


def test_images_are_paired_by_name_and_missing_ones_are_counted():
    shared = find_shared(contestants({"osie": measured("abcd")}, {"osie": measured("xdb", offset=1)}))["osie"]
    assert shared.table.images == ["b", "d"]
    np.testing.assert_array_equal(shared.table.scores["m0"]["nss"], [98, 100])
    np.testing.assert_array_equal(shared.table.scores["m1"]["nss"], [99, 101])
    assert shared.notes[0].startswith(
        "Compared on the 2 images that all models were evaluated on (m0 on 4, m1 on 3). sAUC "
    )


@pytest.mark.parametrize(
    ("other", "versions"),
    [
        ({"fingerprint": "ffff0000"}, "0123abcd with 9, ffff0000 with 9"),
        ({"n_train": 1000}, "0123abcd with 9, 0123abcd with 1,000"),
    ],
)
def test_different_data_is_noted_and_has_no_common_centre_bias(other, versions):
    metrics = (*METRICS, "information_gain")
    first = measured(folder=pathlib.Path("data"), metrics=metrics)
    shared = find_shared(contestants({"osie": first}, {"osie": measured(metrics=metrics, **other)}))["osie"]
    assert f"(fingerprint and training images: {versions})" in shared.notes[0]
    assert "Left out: IG" in shared.notes[0]
    assert {label: tuple(scores) for label, scores in shared.table.scores.items()} == {
        "m0": METRICS,
        "m1": METRICS,
    }
    assert shared.folder is None


def test_metrics_at_network_size_are_left_out_if_the_sizes_differ():
    shared = find_shared(contestants({"osie": measured()}, {"osie": measured(size=(240, 320))}))["osie"]
    assert {tuple(scores) for scores in shared.table.scores.values()} == {("nss",)}
    assert "Left out: CC, KLD, SIM" in shared.notes[0]
    assert "48 \N{MULTIPLICATION SIGN} 64 and 240 \N{MULTIPLICATION SIGN} 320" in shared.notes[0]


def test_dataset_without_all_models_is_left_out():
    sets = contestants({"osie": measured(), "cat": measured()}, {"osie": measured(), "dog": measured()})
    shared = find_shared(sets)
    assert list(shared) == ["osie"]
    assert shared["osie"].notes == [
        "Left out: cat (m1 was not evaluated on it).",
        "Left out: dog (m0 was not evaluated on it).",
    ]


@pytest.mark.parametrize(
    ("second", "message"),
    [
        ({}, "models/m1 is a model without scores"),
        ({"cat": measured()}, r"osie \(m1 was not evaluated on it\); cat \(m0 was not evaluated on it\)"),
        ({"osie": measured("xyz")}, "no image and metric in common; images: m0 4, m1 3"),
        ({"osie": measured(size=(8, 8), metrics=("kld",))}, "no image and metric in common"),
    ],
)
def test_error_without_common_scores_has_a_remedy(second, message):
    with pytest.raises(UserError, match=f"{message}.*--dataset-dir DIR"):
        find_shared(contestants({"osie": measured()}, second))
