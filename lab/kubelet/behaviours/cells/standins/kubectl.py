"""A stand-in for kubectl: `get` and `logs`, done by the node with the lab's own client."""

import sys

import webs  # type: ignore[import-not-found]

answer = webs.ask(op="kubectl", words=sys.argv[1:])
sys.stdout.write(answer["out"])
sys.stderr.write(answer["err"])
sys.exit(answer["code"])
