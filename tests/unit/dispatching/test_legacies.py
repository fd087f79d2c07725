"""What a leader leaves in the cluster, and what the next one makes of it."""

import asyncio
from typing import Any

import pytest

from tests.fakes import clocks
from tests.unit.dispatching import builders
from tiphys.models.domain import errors
from tiphys.operator import apis, legacies


class Api:
    """One Lease."""

    def __init__(self, noted: dict[str, str] | None = None) -> None:
        self.noted = noted
        self.writes = 0

    async def call(self, method: str, path: str, **options: Any) -> dict[str, Any]:
        """Answer as the API server would."""
        assert path.endswith("/namespaces/tiphys-system/leases/tiphys-dispatch")
        if method == "PATCH":
            self.writes += 1
            self.noted = options["body"]["metadata"]["annotations"]
        if self.noted is None:
            raise apis.NotFoundError("none", status=404)
        return {"metadata": {"annotations": self.noted}}


def a_keeper(api: Api, left: legacies.Legacy, *, leads: bool = True) -> legacies.Keeper:
    """Return a keeper of what is left."""

    def fence() -> None:
        if not leads:
            raise errors.StaleError("leads no more")

    return legacies.Keeper(
        api,  # type: ignore[arg-type]
        namespace="tiphys-system",
        fence=fence,
        clock=builders.Clock(),
        left=lambda: left,
    )


async def test_what_one_leader_writes_the_next_one_reads() -> None:
    """Whole seconds of pods that were held for some, and counts by task."""
    left = legacies.Legacy(held_s={"u1": 299.6, "u2": 1.0}, given_back={"w1/n1": 2})
    api = Api()
    assert await a_keeper(api, left).once()
    read = await a_keeper(api, legacies.Legacy()).read()
    assert legacies.Legacy(held_s={"u1": 300.0}, given_back={"w1/n1": 2}) == read


async def test_it_is_written_only_where_something_differs() -> None:
    """Nothing to tell makes no object; the same again makes no call; a fenced one makes none."""
    api = Api()
    assert not await a_keeper(api, legacies.Legacy()).once()
    keeper = a_keeper(api, legacies.Legacy(held_s={"u1": 60.0}))
    assert [True, False] == [await keeper.once(), await keeper.once()]
    assert 1 == api.writes
    with pytest.raises(errors.StaleError):
        await a_keeper(api, legacies.Legacy(held_s={"u1": 90.0}), leads=False).once()
    assert 1 == api.writes


@pytest.mark.parametrize(
    "noted",
    [
        {},
        {legacies.HELD: "{"},
        {legacies.HELD: "[1]"},
        {legacies.HELD: '{"u": "long"}'},
        {legacies.GIVEN_BACK: '{"t": null}'},
        {legacies.GIVEN_BACK: '{"t": Infinity}'},
    ],
)
async def test_what_cannot_be_read_counts_as_nothing(noted: dict[str, str]) -> None:
    """Dispatch begins all the same."""
    assert legacies.Legacy() == await a_keeper(Api(noted), legacies.Legacy()).read()
    assert legacies.Legacy() == await a_keeper(Api(), legacies.Legacy()).read()


async def test_an_answer_that_is_no_ends_nothing_and_a_closed_fence_does() -> None:
    """409 says that somebody else wrote, not that this replica leads no more."""
    said: list[Exception] = [apis.ConflictError("modified", status=409), errors.StaleError("over")]

    class Failing(Api):
        async def call(self, method: str, path: str, **options: Any) -> dict[str, Any]:
            self.writes += 1
            raise said[self.writes - 1]

    api, clock = Failing(), clocks.Clock()
    keeper = a_keeper(api, legacies.Legacy(held_s={"u1": 60.0}))
    keeper._clock = clock
    task = asyncio.ensure_future(keeper.run())
    await clock.advance(legacies.WRITE_S)
    assert (1, False) == (api.writes, task.done())
    await clock.advance(legacies.WRITE_S)
    assert (2, True) == (api.writes, task.done())


def test_it_fits_into_an_object() -> None:
    """20,000 pods and as many tasks: the longest held and the latest stay, below 256 KiB."""
    uid = "4a6cc1b3-7a36-4c7a-9c2c-{:012d}"
    left = legacies.Legacy(
        held_s={uid.format(n): 10.0 + n for n in range(20_000)},
        given_back={f"{uid.format(n)}/{'n' * 63}-{n:010d}": 2 for n in range(20_000)},
    )
    noted = legacies.encode(left)
    assert 2**18 > sum(map(len, [*noted, *noted.values()]))
    read = legacies.decode(noted)
    assert 10.0 + 19_999 == max(read.held_s.values())
    assert list(left.given_back)[-1] in read.given_back
