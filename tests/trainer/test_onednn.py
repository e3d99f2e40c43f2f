"""oneDNN on any CPU: TensorFlow reads the setting when it is imported."""

import importlib
import os
import subprocess
import sys

import pytest
from tensorflow.python.util import _pywrap_util_port

import trainer

NAME = "TF_ENABLE_ONEDNN_OPTS"
# Simulates a CPU on which TensorFlow turns oneDNN off, by a setting that is removed afterwards.
TOO_LATE = f"""
import os
os.environ["{NAME}"] = "0"
import tensorflow
del os.environ["{NAME}"]
import trainer
"""


@pytest.mark.skipif(not _pywrap_util_port.IsX86Available(), reason="TensorFlow has oneDNN on x86 alone")
def test_it_is_on_in_whatever_imports_this_project_first():
    assert _pywrap_util_port.IsMklEnabled() == (os.environ[NAME] == "1")


@pytest.mark.parametrize(("value", "expected"), [(None, "1"), ("0", "0"), ("1", "1")])
def test_value_that_the_user_has_set_stays(monkeypatch, value, expected):
    monkeypatch.setenv(NAME, value) if value else monkeypatch.delenv(NAME)
    monkeypatch.delitem(sys.modules, "tensorflow")
    importlib.reload(trainer)
    assert os.environ[NAME] == expected


@pytest.mark.skipif(not _pywrap_util_port.IsX86Available(), reason="TensorFlow has oneDNN on x86 alone")
def test_notebook_that_imports_tensorflow_first_is_told():
    finished = subprocess.run([sys.executable, "-c", TOO_LATE], capture_output=True, text=True, check=True)
    assert f"Import trainer first, or set {NAME}=1" in finished.stderr
