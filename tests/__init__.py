"""Tests of the packages, in folders that mirror them.

A module or folder here without `test_` in its name helps the tests of several packages, such as `prepared`, or is
a tool of `make checks`, such as `cluster`. What helps one package alone is in the folder of its tests.
"""

import trainer  # noqa: F401  before TensorFlow is imported: see there
