"""A stand-in for nginx: serves its welcome page on port 80."""

import webs  # type: ignore[import-not-found]

PAGE = b"<!DOCTYPE html>\n<title>Welcome to nginx!</title>\n<h1>Welcome to nginx!</h1>\n"

webs.serve(80, lambda method, target, body: (200, PAGE))
