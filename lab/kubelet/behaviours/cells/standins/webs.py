"""HTTP between containers: unix sockets named by address and port, one for each server."""

import json
import os
import signal
import socket
import sys
from collections.abc import Callable
from typing import Any

Answer = Callable[[str, str, bytes], tuple[int, bytes]]
"""(method, target, body) → (status, content)."""
NET = "/opt/lab/net"
ADDRESS = os.environ.get("TIPHYS_POD_ADDRESS", "127.0.0.1")
REASONS = {200: "OK", 204: "No Content", 400: "Bad Request", 404: "Not Found"}


def ask(**question: object) -> dict[str, Any]:
    """Ask the node: resolve a name, answer for a host of the internet, run a kubectl verb."""
    question["namespace"] = os.environ.get("TIPHYS_POD_NAMESPACE", "default")
    with socket.socket(socket.AF_UNIX) as line:
        line.connect(f"{NET}/node")
        line.sendall(json.dumps(question).encode() + b"\n")
        with line.makefile("rb") as answers:
            answer: dict[str, Any] = json.loads(answers.readline())
            return answer


def serve(port: int, answer: Answer) -> None:
    """Serve on the pod's address until SIGTERM."""
    path = f"{NET}/{ADDRESS}:{port}"
    if os.path.exists(path):
        os.unlink(path)
    server = socket.socket(socket.AF_UNIX)
    server.bind(path)
    os.chmod(path, 0o777)
    server.listen(64)

    def stop(*_: object) -> None:
        if os.path.exists(path):
            os.unlink(path)
        os._exit(0)

    signal.signal(signal.SIGTERM, stop)
    sys.stdout.write(f"listening on {ADDRESS}:{port}\n")
    sys.stdout.flush()
    while True:
        connection, _ = server.accept()
        with connection:
            try:
                reply(connection, answer)
            except (OSError, ValueError) as error:
                sys.stderr.write(f"{error}\n")


def reply(connection: socket.socket, answer: Answer) -> None:
    """Read one request and answer it."""
    with connection.makefile("rb") as lines:
        method, target, _ = lines.readline().decode().split(" ", 2)
        length = 0
        while (line := lines.readline().decode().strip()) != "":
            name, _, value = line.partition(":")
            if name.lower() == "content-length":
                length = int(value)
        status, content = answer(method, target, lines.read(length))
    head = f"HTTP/1.0 {status} {REASONS.get(status, 'Other')}"
    connection.sendall(f"{head}\r\nContent-Length: {len(content)}\r\n\r\n".encode() + content)


def fetch(
    address: str, port: int, *, method: str, target: str, headers: list[list[str]], body: bytes
) -> tuple[int, bytes]:
    """Send one request to a server of the lab; returns status and content."""
    own = address in ("127.0.0.1", "localhost", "::1")
    with socket.socket(socket.AF_UNIX) as line:
        line.connect(f"{NET}/{ADDRESS if own else address}:{port}")
        lines = [f"{method} {target} HTTP/1.0", f"Content-Length: {len(body)}"]
        lines += [f"{name}: {value}" for name, value in headers]
        line.sendall("\r\n".join([*lines, "", ""]).encode() + body)
        with line.makefile("rb") as answer:
            status = int(answer.readline().split()[1])
            while answer.readline().strip():
                pass
            return status, answer.read()
