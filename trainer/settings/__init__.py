"""Settings as fields of dataclasses, and as flags of a command line. Their meaning is not known here.

The settings of a part are in its own `settings.py`, such as `trainer/training/settings.py`.
"""
