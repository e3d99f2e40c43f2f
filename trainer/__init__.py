"""MSI-Net: data, network, training, evaluation, prediction; pipelines and tools for designers are outside.

By default TensorFlow uses oneDNN only on CPUs with VNNI, BF16 or AMX instructions. On other CPUs its own kernels
take up to four times as long for a training step (docs/adr/0011-right-and-fast-on-any-cpu.md). TensorFlow reads
the setting once, when it is imported, and every entry point of this project imports this package first. A value
that you have set is kept.
"""

import os
import sys
import warnings

if "tensorflow" in sys.modules and "TF_ENABLE_ONEDNN_OPTS" not in os.environ:  # imported first, as in a notebook
    from tensorflow.python.util import _pywrap_util_port

    if _pywrap_util_port.IsX86Available() and not _pywrap_util_port.IsMklEnabled():
        warnings.warn(
            "TensorFlow was imported before trainer and runs without oneDNN, several times slower on this CPU. "
            "Import trainer first, or set TF_ENABLE_ONEDNN_OPTS=1",
            stacklevel=2,
        )
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")
