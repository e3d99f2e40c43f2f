import trainer  # noqa: F401 - before TensorFlow: trainer/__init__.py says why
