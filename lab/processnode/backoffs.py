"""How long a container that ended stays down before it runs again; a value and one function."""

from dataclasses import dataclass

from lab.processnode import settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause:
    """The next pause, and the one after it if the container ends soon again."""

    wait_s: float = 0.0
    after_s: float = 0.0


def following(last: Pause, *, ran_s: float, rules: settings.Backoff) -> Pause:
    """Return the pause before the next start of a container that ran for `ran_s`.

    As kubelets have it: 0, 10, 20, 40 … 300 s, and from the beginning after ten good minutes.
    """
    if ran_s >= rules.forgotten_after_s:
        return Pause(wait_s=0.0, after_s=rules.first_s)
    after_s = min(rules.longest_s, last.after_s * 2 or rules.first_s)
    return Pause(wait_s=min(rules.longest_s, last.after_s), after_s=after_s)
