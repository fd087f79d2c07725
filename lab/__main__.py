"""`python -m lab`: see `lab.cli`."""

import sys

from lab import cli

if __name__ == "__main__":
    sys.exit(cli.run())
