"""`python -m lab`: see `lab.cli.groups`."""

import sys

from lab.cli import groups

if __name__ == "__main__":
    sys.exit(groups.run())
