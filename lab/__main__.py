"""`python -m lab`: see `lab.cli.groups`."""

import sys

if __name__ == "__main__":
    try:
        from lab.cli import groups

        code = groups.run()
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] == "lab":
            raise
        sys.exit(
            f"error: {sys.executable} has no module {error.name!r}: `make lab-up` sets up .venv, "
            "then use .venv/bin/python -m lab"
        )
    sys.exit(code)
