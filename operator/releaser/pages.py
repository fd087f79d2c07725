"""/healthz, /readyz and /metrics of the releaser on plain HTTP, in a thread."""

import http.server
import socket
import threading
import time
from collections.abc import Callable

Answer = tuple[int, str]
PATIENCE_S = 5.0
"""Who asks nothing for so long is cut off: each connection takes a thread."""


class State:
    """What the pages show; written by the loop, read by the server's threads."""

    def __init__(self) -> None:
        self.beat_at = time.monotonic()
        """When the loop last came round."""
        self.looked_at = float("-inf")
        """When the Leases were last read."""
        self.alive = True
        self.looks = 0
        self.failures = 0
        self.gates = 0
        self.opened = 0
        self.failed = 0

    def answer(self, path: str) -> Answer:
        """Return status and text of a page."""
        now = time.monotonic()
        if path == "/healthz":
            slow = now - self.beat_at > 60.0
            return (503, "the loop hangs\n") if slow else (200, "ok\n")
        if path == "/readyz":
            late = now - self.looked_at > 30.0
            return (503, "the Leases cannot be read\n") if late else (200, "ok\n")
        if path == "/metrics":
            return 200, self._metrics()
        return 404, "there are /healthz, /readyz and /metrics\n"

    def _metrics(self) -> str:
        values = (
            ("looks_total", "counter", "Looks at the operators' Leases", self.looks),
            ("look_failures_total", "counter", "Looks that got no answer", self.failures),
            ("operators_alive", "gauge", "1 while a Lease says that one lives", int(self.alive)),
            ("gates", "gauge", "Gates that the last search found", self.gates),
            ("gates_opened_total", "counter", "Gates opened", self.opened),
            ("gates_failed_total", "counter", "Attempts that opened no gate", self.failed),
        )
        lines = []
        for name, kind, about, value in values:
            full = f"tiphys_releaser_{name}"
            lines += [f"# HELP {full} {about}", f"# TYPE {full} {kind}", f"{full} {value}"]
        return "\n".join(lines) + "\n"


def family(host: str) -> socket.AddressFamily:
    """Return what kind of address `host` is; a pod may have one of IPv6 alone."""
    return socket.AF_INET6 if ":" in host else socket.AF_INET


def serve(answer: Callable[[str], Answer], host: str, port: int) -> http.server.ThreadingHTTPServer:
    """Serve in a thread of its own; the caller shuts it down."""

    class Handler(http.server.BaseHTTPRequestHandler):
        timeout = PATIENCE_S

        def do_GET(self) -> None:
            status, text = answer(self.path.partition("?")[0])
            body = text.encode()
            self.send_response(status)
            self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *arguments: object) -> None:
            """Probes are no news."""

    class Server(http.server.ThreadingHTTPServer):
        address_family = family(host)
        daemon_threads = True

    server = Server((host, port), Handler)
    threading.Thread(target=server.serve_forever, name="pages", daemon=True).start()
    return server
