"""Who answers where on loopback: a block of 127.0.0.0/8 per lab, one address per pod.

Linux delivers the whole of 127.0.0.0/8 to this machine without any set-up or right, so pods get
distinct addresses, and Services too if the API server is started with `Block.services` as its
`--service-cluster-ip-range`. The search for a free block begins at one that follows from the lab's
name, so a lab that runs alone has the same addresses each time.

The claim on a block is a socket with an abstract name: the kernel gives such a name to one holder
in each network namespace (which is also how far loopback reaches), whoever the user and wherever
the lab's home, and frees it when the last process that holds the socket ends, however it does.
"""

import ipaddress
import socket
import zlib
from dataclasses import dataclass
from pathlib import Path

from lab import errors

LOWEST_BLOCK, BLOCKS = 16, 224
"""127.16.0.0/16 to 127.239.0.0/16: clear of what distributions put at both ends."""
PODS = 250
FILE = "addresses"
"""In the lab's home: the number of its block."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """The addresses 127.NUMBER.0.0/16 of one lab."""

    number: int

    @property
    def services(self) -> str:
        """Range of cluster IPs."""
        return f"127.{self.number}.0.0/20"

    @property
    def server(self) -> str:
        """Cluster IP of the Service `default/kubernetes`: the first of the range."""
        return f"127.{self.number}.0.1"

    @property
    def node(self) -> str:
        """Address of the node; its API and its webhook listen there."""
        return f"127.{self.number}.255.1"

    def pod(self, index: int) -> str:
        """Return the address of slot `index` of `PODS`."""
        return f"127.{self.number}.{128 + index // 250}.{1 + index % 250}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A block that is ours for as long as a process holds `socket`."""

    block: Block
    socket: socket.socket


def first_choice(lab: str) -> Block:
    """Return the block at which the search for the lab with this name begins."""
    return Block(number=LOWEST_BLOCK + zlib.crc32(lab.encode()) % BLOCKS)


def claim(lab: str) -> Claim:
    """Claim the first block from `first_choice` on that no lab holds; raises `SetupError`."""
    first = first_choice(lab).number - LOWEST_BLOCK
    for step in range(BLOCKS):
        chosen = Block(number=LOWEST_BLOCK + (first + step) % BLOCKS)
        held = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            held.bind(f"\0tiphys-lab-127.{chosen.number}")
        except OSError:
            held.close()
        else:
            return Claim(block=chosen, socket=held)
    raise errors.SetupError(
        f"all {BLOCKS} blocks of loopback addresses are held by labs: end one that is not needed "
        "(`grep tiphys-lab /proc/net/unix` shows the held ones)"
    )


def record(root: Path, chosen: Block) -> None:
    """Write down in the lab's home which block it has; `recorded` reads it."""
    (root / FILE).write_text(f"{chosen.number}\n")


def recorded(root: Path, *, lab: str) -> Block:
    """Return the block of the lab whose home is `root`; its first choice where none is recorded."""
    try:
        return Block(number=int((root / FILE).read_text()))
    except FileNotFoundError:
        return first_choice(lab)


class Slots:
    """Hands out pod addresses; one that was freed is used again as late as possible."""

    def __init__(self, chosen: Block) -> None:
        self._block = chosen
        self._next = 0
        self._taken: set[str] = set()

    def take(self, *, wanted: str = "") -> str:
        """Return a free address, `wanted` if it is one of ours and free; raises `LookupError`."""
        mine = {self._block.pod(index) for index in range(PODS)}
        chosen = wanted if wanted in mine - self._taken else self._free()
        self._taken.add(chosen)
        return chosen

    def give(self, address: str) -> None:
        """Take an address back."""
        self._taken.discard(address)

    def _free(self) -> str:
        for step in range(PODS):
            index = (self._next + step) % PODS
            if self._block.pod(index) not in self._taken:
                self._next = index + 1
                return self._block.pod(index)
        raise LookupError(f"all {PODS} pod addresses are in use")


def is_loopback(address: str) -> bool:
    """Whether an address is one that this machine answers by itself."""
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False
