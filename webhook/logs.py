"""Log lines as JSON: a constant message and named values."""

import json
import logging
import sys
from typing import TextIO


class JsonFormatter(logging.Formatter):
    """One object a line: time, level, logger, message, then the values given as `extra`."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line; `extra={"values": {…}}` holds the named values."""
        values = getattr(record, "values", None)
        line = {
            "time": round(record.created, 3),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **(values if isinstance(values, dict) else {}),
        }
        if record.exc_info:
            line["trace"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


def configure(level: str, *, out: TextIO | None = None) -> None:
    """Send everything to `out` (standard error) as JSON, once."""
    handler = logging.StreamHandler(sys.stderr if out is None else out)
    handler.setFormatter(JsonFormatter())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
