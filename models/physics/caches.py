"""The page cache: LRU of file bytes in what working sets leave free, charged to the first reader.

F files (one per node and name), E readers (one per task and file). A reader goes through its file
once. What was cached when it opened the file is a hit. What was not is read from the disk once for
all that read the file at the time: each of n concurrent readers misses 1/n of it.

The cache counts into a task's memory.current up to its limit and never kills anybody: beyond the
limit a task recycles its own pages, and when working sets grow the oldest files leave.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from . import groups
from .clusters import Floats, Ints

WHOLE = 1 - 1e-9
"""A file of which this part is resident counts as wholly cached (rounding)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cache:
    """Files and their readers."""

    index: Mapping[tuple[int, str], int]
    """(node, file) to its index, in the order of the indexes; F entries."""
    node: Ints
    """[F]"""
    size: Floats
    """[F] bytes."""
    resident: Floats
    """[F] bytes in memory."""
    used_at_s: Floats
    """[F] last use."""
    task: Ints
    """[E]"""
    file: Ints
    """[E]"""
    bytes: Floats
    """[E] bytes that the task reads."""
    hit: Floats
    """[E] part of them that was cached when it opened the file and still is."""
    charged: Floats
    """[E] resident bytes that this reader brought in."""
    missed: Floats
    """[E] bytes per unit of progress that it brings from the disk; see `_missed`."""

    @property
    def files(self) -> int:
        """F."""
        return len(self.node)

    @property
    def readers(self) -> int:
        """E."""
        return len(self.task)


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """A task opens a file."""

    task: int
    node: int
    file: str
    bytes: float


def empty() -> Cache:
    """Return a cache without files."""
    floats, ints = np.zeros(0), np.zeros(0, dtype=np.intp)
    return Cache(
        index={},
        node=ints,
        size=floats,
        resident=floats,
        used_at_s=floats,
        task=ints,
        file=ints,
        bytes=floats,
        hit=floats,
        charged=floats,
        missed=floats,
    )


def join(cache: Cache, openings: Sequence[Opening], *, at_s: float) -> Cache:
    """Return the cache with more readers; their hits are what is resident now."""
    if not openings:
        return cache
    index, nodes = dict(cache.index), []
    for opening in openings:
        if (opening.node, opening.file) not in index:
            index[opening.node, opening.file] = len(index)
            nodes.append(opening.node)
    fresh = np.zeros(len(nodes))
    file = np.array([index[o.node, o.file] for o in openings], dtype=np.intp)
    amounts = np.array([o.bytes for o in openings])
    size = np.concatenate((cache.size, fresh))
    np.maximum.at(size, file, amounts)
    resident = np.concatenate((cache.resident, fresh))
    used_at_s = np.concatenate((cache.used_at_s, fresh))
    used_at_s[file] = at_s
    cached = resident[file] / np.where(size[file] > 0, size[file], 1.0)
    cached[cached > WHOLE] = 1.0
    file, hit = np.concatenate((cache.file, file)), np.concatenate((cache.hit, cached))
    amounts = np.concatenate((cache.bytes, amounts))
    return Cache(
        index=index,
        node=np.concatenate((cache.node, np.array(nodes, dtype=np.intp))),
        size=size,
        resident=resident,
        used_at_s=used_at_s,
        task=np.concatenate((cache.task, np.array([o.task for o in openings], dtype=np.intp))),
        file=file,
        bytes=amounts,
        hit=hit,
        charged=np.concatenate((cache.charged, np.zeros(len(openings)))),
        missed=_missed(file, amounts, hit=hit, files=len(size)),
    )


def leave(cache: Cache, kept: Ints, *, at_s: float) -> Cache:
    """Return the cache when only the tasks `kept` stay, renumbered in that order.

    Pages of the others stay cached but count as nobody's; files without pages are forgotten.
    """
    if not cache.index:
        return cache
    last = int(max(kept.max(initial=-1), cache.task.max(initial=-1)))
    new = np.full(last + 1, -1, dtype=np.intp)
    new[kept] = np.arange(len(kept))
    stays = new[cache.task] >= 0
    used_at_s = cache.used_at_s.copy()
    used_at_s[cache.file] = at_s
    read = np.bincount(cache.file[stays], minlength=cache.files) > 0
    known = read | (cache.resident > 0)
    position = np.cumsum(known) - 1
    file, amounts, hit = position[cache.file[stays]], cache.bytes[stays], cache.hit[stays]
    return Cache(
        index=cache.index
        if known.all()
        else {name: int(position[old]) for name, old in cache.index.items() if known[old]},
        node=cache.node[known],
        size=cache.size[known],
        resident=cache.resident[known],
        used_at_s=used_at_s[known],
        task=new[cache.task[stays]],
        file=file,
        bytes=amounts,
        hit=hit,
        charged=cache.charged[stays],
        missed=_missed(file, amounts, hit=hit, files=int(known.sum())),
    )


def _missed(file: Ints, amounts: Floats, *, hit: Floats, files: int) -> Floats:
    """Return the bytes [E] per unit of progress that each reader brings from the disk."""
    together = np.bincount(file[hit < 1], minlength=files)
    result: Floats = amounts * (1 - hit) / np.maximum(together[file], 1)
    return result


def demand(cache: Cache, tasks: int) -> Floats:
    """Return the bytes [T] per unit of progress that each task brings from the disk."""
    return groups.sums(cache.task, cache.missed, tasks)


def charged(cache: Cache, tasks: int) -> Floats:
    """Return the resident bytes [T] that count into each task's memory.current."""
    return groups.sums(cache.task, cache.charged, tasks)


def rising(cache: Cache, per_s: Floats, *, room_bytes: Floats) -> Floats:
    """Return the bytes/s [E] by which each reader makes the cache grow at rates [T].

    Whoever reads what others have brought meanwhile, or recycles its own pages at its limit
    (`room_bytes` [T], as for `move`), reads the disk and adds nothing.
    """
    mine = charged(cache, len(per_s))
    grows = (mine < room_bytes * WHOLE)[cache.task]
    grows &= (cache.resident < cache.size * WHOLE)[cache.file]
    return np.where(grows, cache.missed * per_s[cache.task], 0.0)


def total(cache: Cache, nodes: int) -> Floats:
    """Return the resident bytes [V] of each node."""
    return groups.sums(cache.node, cache.resident, nodes)


def move(
    cache: Cache, progress: Floats, *, free_bytes: Floats, room_bytes: Floats, at_s: float
) -> Cache:
    """Return the cache after each task went on by `progress` [T].

    `free_bytes` [V] is what working sets leave on each node, `room_bytes` [T] what each task's
    limit leaves beside its working set.
    """
    if not cache.index:
        return cache
    files, tasks, nodes = cache.files, len(progress), len(free_bytes)
    resident, charge = cache.resident, cache.charged
    used_at_s = cache.used_at_s
    if not cache.readers and (groups.sums(cache.node, resident, nodes) <= free_bytes).all():
        return cache
    if cache.readers:
        brought = cache.missed * progress[cache.task]
        # Never more than the file: readers that joined in the middle would count pages twice.
        wanted = groups.sums(cache.file, brought, files)
        space = np.maximum(cache.size - resident, 0.0)
        share = np.minimum(1.0, space / np.where(wanted > 0, wanted, 1.0))
        brought = brought * share[cache.file]
        charge = charge + brought
        mine = groups.sums(cache.task, charge, tasks)
        over = np.minimum(1.0, room_bytes / np.where(mine > 0, mine, 1.0))[cache.task]
        recycled = charge * (1 - over)
        charge = charge - recycled
        resident = resident + groups.sums(cache.file, brought - recycled, files)
        used_at_s = used_at_s.copy()
        used_at_s[cache.file] = at_s
    excess = groups.sums(cache.node, resident, nodes) - free_bytes
    if (excess > 0).any():
        kept = _without_oldest(cache.node, resident, used_at_s, np.maximum(excess, 0.0))
        charge = charge * (kept / np.where(resident > 0, resident, 1.0))[cache.file]
        resident = kept
    resident = np.minimum(np.maximum(resident, 0.0), cache.size)
    cached = resident / np.where(cache.size > 0, cache.size, 1.0)
    hit, missed = np.minimum(cache.hit, cached[cache.file]), cache.missed
    if (hit == cache.hit).all():
        hit = cache.hit
    else:
        missed = _missed(cache.file, cache.bytes, hit=hit, files=files)
    return Cache(
        index=cache.index,
        node=cache.node,
        size=cache.size,
        resident=resident,
        used_at_s=used_at_s,
        task=cache.task,
        file=cache.file,
        bytes=cache.bytes,
        hit=hit,
        charged=charge,
        missed=missed,
    )


def _without_oldest(node: Ints, resident: Floats, used_at_s: Floats, excess: Floats) -> Floats:
    """Return the resident bytes [F] after `excess` [V] left each node, oldest first."""
    order = np.lexsort((used_at_s, node))
    amounts, nodes = resident[order], node[order]
    before = np.cumsum(amounts) - amounts
    first = np.searchsorted(nodes, nodes, side="left")
    gone = np.clip(excess[nodes] - (before - before[first]), 0.0, amounts)
    result = np.empty_like(resident)
    result[order] = amounts - gone
    return result
