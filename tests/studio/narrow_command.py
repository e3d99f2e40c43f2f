"""`python -m tests.studio.narrow_command ...`: the studio's command line for models of the narrow network."""

import sys

from studio.__main__ import main
from tests.narrow import narrowed

if __name__ == "__main__":
    with narrowed():
        main(sys.argv[1:])
