"""A stage in the place of real labs: `up` makes a home, `run` writes the records of a run."""

import shutil

import click

from lab import homes
from lab.cli import arms
from lab.controlplane import labs
from lab.workloads import packs
from tests.unit.reports import synthetic_runs as a
from tests.unit.reports import written_runs


class Stage:
    """What an experiment did with its labs, in order, and what it will find in them."""

    def __init__(self):
        self.run, self.error, self.calls, self.gates = a.a_run(), None, [], 0
        self.policies, self.data, self.fails_open = [], [], False

    def up(self, **asked):
        self.calls.append("up")
        # As `up` does: a lab begins with an empty home.
        shutil.rmtree(homes.home(asked["name"]).root, ignore_errors=True)
        homes.home(asked["name"]).root.mkdir(parents=True)

    def install(self, home, *, more):
        self.calls.append("install")

    async def opt_in(self, home, namespaces, *, policy):
        self.calls.append("opt in")
        self.policies.append(policy)
        assert namespaces

    async def opened(self, home):
        self.gates += 10
        return {"turn": self.gates, "clock": 1}

    def submit(self, **asked):
        self.calls.append("run")
        self.data.append(asked["data"])
        last = self.calls[len(self.calls) - self.calls[::-1].index("up") :]
        steered = "opt in" in last and not self.fails_open
        run = a.steered(self.run) if steered else self.run
        written_runs.write(homes.home(asked["lab"]), run)
        if self.error:
            raise self.error

    def down(self, home, *, at_once):
        self.calls.append("down at once" if at_once else "down")
        return labs.Outcome.STOPPED


def set_up(folder, monkeypatch):
    """Put a stage where experiments look for real labs; everything is written below `folder`."""
    stage = Stage()
    monkeypatch.setenv("TIPHYS_LAB_HOME", str(folder / "labs"))
    monkeypatch.setenv("TIPHYS_RESULTS", str(folder / "results"))
    # Workloads are made for the namespaces of their tenants alone; a whole pack would take seconds.
    monkeypatch.setenv("TIPHYS_DATA", str(packs.SAMPLE))
    monkeypatch.setattr(arms.clusters, "up", click.Command("up", callback=stage.up))
    monkeypatch.setattr(arms.runs, "run", click.Command("run", callback=stage.submit))
    monkeypatch.setattr(arms.labs, "down", stage.down)
    monkeypatch.setattr(arms.helms, "find", lambda report: folder / "helm")
    monkeypatch.setattr(arms.installs, "install_into", stage.install)
    monkeypatch.setattr(arms, "_opted_in", stage.opt_in)
    monkeypatch.setattr(arms, "_opened", stage.opened)
    return stage
