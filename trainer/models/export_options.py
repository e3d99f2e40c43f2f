"""What an export can be. Standard library only."""

SAVED_MODEL, TFLITE = FORMATS = ("saved-model", "tflite")
SIGNATURES = ("serving_default", "serve_bytes")
"""Of a SavedModel: of prepared images, and of encoded ones."""
QUANTIZATIONS = ("none", "float16", "dynamic")
"""Of a TFLite file: float32; weights in float16; weights in 8 bits, and so the arithmetic where it can be."""
