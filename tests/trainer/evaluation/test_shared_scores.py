"""What evaluations have in common, told in numbers."""

import pathlib

import numpy as np
import pytest

from trainer.errors import UserError
from trainer.evaluation.contestants import Contestant, Measured
from trainer.evaluation.per_image import CANDIDATE, CENTER_BIAS, PerImage
from trainer.evaluation.shared_scores import find_shared

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


def test_the_same_images_are_taken_as_they_are():
    place = pathlib.Path("data")
    found = find_shared(contestants({"osie": measured()}, {"osie": measured(offset=1, folder=place)}))["osie"]
    assert found.notes == []
    assert found.folder == place
    assert found.table.images == list("abcd")
    assert list(found.table.scores) == ["m0", "m1", CENTER_BIAS]
    np.testing.assert_array_equal(found.table.scores["m1"]["kld"] - found.table.scores["m0"]["kld"], np.ones(4))


def test_images_are_paired_by_name_and_what_is_missing_is_counted():
    found = find_shared(contestants({"osie": measured("abcd")}, {"osie": measured("xdb", offset=1)}))["osie"]
    assert found.table.images == ["b", "d"]
    np.testing.assert_array_equal(found.table.scores["m0"]["nss"], [98, 100])
    np.testing.assert_array_equal(found.table.scores["m1"]["nss"], [99, 101])
    assert found.notes[0].startswith(
        "Compared on the 2 images that all models were evaluated on (m0 on 4, m1 on 3). sAUC "
    )


@pytest.mark.parametrize(
    ("other", "said"),
    [
        ({"fingerprint": "ffff0000"}, "0123abcd with 9, ffff0000 with 9"),
        ({"n_train": 1000}, "0123abcd with 9, 0123abcd with 1,000"),
    ],
)
def test_other_data_is_said_and_has_no_common_centre_bias(other, said):
    metrics = (*METRICS, "information_gain")
    first = measured(folder=pathlib.Path("data"), metrics=metrics)
    found = find_shared(contestants({"osie": first}, {"osie": measured(metrics=metrics, **other)}))["osie"]
    assert f"(fingerprint and training images: {said})" in found.notes[0]
    assert "Left out: IG" in found.notes[0]
    assert {label: tuple(each) for label, each in found.table.scores.items()} == {"m0": METRICS, "m1": METRICS}
    assert found.folder is None


def test_metrics_that_depend_on_the_networks_size_are_left_out_where_it_differs():
    found = find_shared(contestants({"osie": measured()}, {"osie": measured(size=(240, 320))}))["osie"]
    assert {tuple(each) for each in found.table.scores.values()} == {("nss",)}
    assert "Left out: CC, KLD, SIM" in found.notes[0]
    assert "48 \N{MULTIPLICATION SIGN} 64 and 240 \N{MULTIPLICATION SIGN} 320" in found.notes[0]


def test_data_set_that_one_was_not_evaluated_on_is_left_out():
    sets = contestants({"osie": measured(), "cat": measured()}, {"osie": measured(), "dog": measured()})
    found = find_shared(sets)
    assert list(found) == ["osie"]
    assert found["osie"].notes == [
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
def test_without_anything_in_common_it_is_said_how_to_compare_all_the_same(second, message):
    with pytest.raises(UserError, match=f"{message}.*--dataset-dir DIR"):
        find_shared(contestants({"osie": measured()}, second))
