"""MSI-Net: data, network, training, evaluation, prediction."""

import os

# TensorFlow uses oneDNN by itself only on CPUs with VNNI, BF16 or AMX instructions. Elsewhere its own kernels take
# two to four times as long for a training step (docs/adr/0011-right-and-fast-on-any-cpu.md). It reads this once,
# when it is imported; every way into this project imports this package before. A value that you have set stays.
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")
