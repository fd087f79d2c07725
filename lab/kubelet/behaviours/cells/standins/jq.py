"""A stand-in for jq on machines that lack it: only paths such as `.`, `.[2]` and `.a.b`."""

import json
import re
import sys
from pathlib import Path

STEP = r"\.?\[(\d+)\]|\.(\w+)"

words = [word for word in sys.argv[1:] if not word.startswith("-")]
if not re.fullmatch(rf"\.|(?:{STEP})+", words[0]):
    sys.exit(f"jq: {words[0]} is more than this stand-in knows; install jq")
document = json.loads(Path(words[1]).read_text() if len(words) > 1 else sys.stdin.read())
for index, name in re.findall(STEP, words[0]):
    document = document[int(index)] if index else document[name]
sys.stdout.write(json.dumps(document, indent=2) + "\n")
