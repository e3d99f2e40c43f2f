"""`python -m tests.studio.narrow_command ...`: the trainer's command line for models of the narrow network."""

import sys

from tests.narrow import narrowed
from trainer.__main__ import main

if __name__ == "__main__":
    with narrowed():
        main(sys.argv[1:])
