"""What to do about a run that was too quick for its control plane: a slower one, or a free machine.

A slower run takes longer, and longer than an hour nobody should be sent: what is proposed says how
long it takes, allows itself that time, and otherwise the machine has to become free.
"""

import math
import shlex
from collections.abc import Sequence

from lab import invocations
from lab.cli import arms, runs
from lab.reports import measurements, verdicts

LONGEST_WALL_S = 3600.0
"""Above this no slower run is proposed."""
ROOM = 2.0
"""A proposed run may take this many times what is expected of it."""


def slower(measured: measurements.Measurement) -> float | None:
    """Return a speed at which the run may be valid; None where its speed is not what is wrong."""
    share = measured.validity.share
    if share is None or share <= verdicts.LIMIT_SHARE:
        return None
    # A slower lab loads the control plane less too, so what is in proportion leaves some room.
    wished = measured.speed * min(0.5, verdicts.LIMIT_SHARE / share)
    return math.floor(wished) if wished >= 1 else round(wished, 3)


def expected_wall_s(ended: Sequence[measurements.Measurement], *, speed: float) -> float | None:
    """Return how long these runs take at a speed; None where one was cut short."""
    if any(item.outcome != "complete" or item.figures.makespan_s is None for item in ended):
        return None
    return sum(item.figures.makespan_s or 0.0 for item in ended) / speed


def in_words(wall_s: float) -> str:
    """Return `about 7 min` or `about 3.2 hours`."""
    if wall_s > LONGEST_WALL_S:
        return f"about {wall_s / 3600:.1f} hours"
    return f"about {max(1, math.ceil(wall_s / 60))} min"


def freed(wall_s: float | None) -> str:
    """Return why nothing slower is proposed, and what helps."""
    why = (
        "how long a slower one takes is not known, since this one was cut short"
        if wall_s is None
        else f"slow enough to count it would take {in_words(wall_s)}"
    )
    return f"free this machine of other work and repeat the same ({why})"


def of_run(measured: measurements.Measurement) -> str:
    """Return what to do about one run of a lab of one's own; empty where its speed was right."""
    speed = slower(measured)
    if speed is None:
        return ""
    wall_s = expected_wall_s([measured], speed=speed)
    if wall_s is None or wall_s > LONGEST_WALL_S:
        return freed(wall_s)
    typed = "\n".join(f"  {line}" for line in _commands(measured, speed=speed, wall_s=wall_s))
    return f"repeat it in a slower lab ({in_words(wall_s)}), `up` with the rest as it was:\n{typed}"


def _commands(measured: measurements.Measurement, *, speed: float, wall_s: float) -> list[str]:
    """Return what to type: a lab begins empty, so Tiphys and its namespaces come again too."""
    typed, lab = invocations.lab(), f"-n {measured.lab}"
    lines = [f"{typed} down {lab}", f"{typed} up {lab} --speed {speed:g}"]
    measure = f"{typed} measure {lab}"
    if measured.arm == arms.TIPHYS.name:
        spaces = " ".join(sorted({item.namespace for item in measured.workflows}))
        lines += [
            f"{typed} install {lab}",
            f"export KUBECONFIG=$({typed} kubeconfig {lab})",
            f"for each in {spaces}; do kubectl create namespace $each; done",
            f"kubectl annotate namespaces {spaces} {arms.ENABLED}=true",
        ]
        measure += f" --arm {measured.arm}"
    return [*lines, _run(measured.command, wall_s=wall_s), measure]


def _run(command: str, *, wall_s: float) -> str:
    """Return the command of a run as it is typed from here, with the limit that it needs."""
    _, _, _, *words = shlex.split(command)  # `python -m lab`, as records have it
    if runs.LIMIT in words:
        place = words.index(runs.LIMIT)
        del words[place : place + 2]
    if wall_s * ROOM > runs.LIMIT_WALL_S:
        words += [runs.LIMIT, f"{math.ceil(wall_s * ROOM / 100) * 100}"]
    return f"{invocations.lab()} {shlex.join(words)}"
