"""Who answers where on loopback: a block of 127.0.0.0/8 per lab, one address per pod.

Linux delivers the whole of 127.0.0.0/8 to this machine without any set-up or right, so pods get
distinct addresses, and Services too if the API server is started with `Block.services` as its
`--service-cluster-ip-range`. The block follows from the lab's name; two labs whose names fall on
one block cannot run side by side, and the second one says so.
"""

import ipaddress
import zlib
from dataclasses import dataclass

LOWEST_BLOCK, BLOCKS = 16, 224
"""127.16.0.0/16 to 127.239.0.0/16: clear of what distributions put at both ends."""
PODS = 250


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
        """Address of the node; it is bound for as long as the node runs, so it is a claim too."""
        return f"127.{self.number}.255.1"

    def pod(self, index: int) -> str:
        """Return the address of slot `index` of `PODS`."""
        return f"127.{self.number}.{128 + index // 250}.{1 + index % 250}"


def block(lab: str) -> Block:
    """Return the block of the lab with this name."""
    return Block(number=LOWEST_BLOCK + zlib.crc32(lab.encode()) % BLOCKS)


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
