"""The page as a browser sees it: drawn, without a script error, and answering to a person."""

import re
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from lab.reports import figures, pages
from tests.unit.reports import synthetic_runs as a

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--window-size=1320,2000",
    "--virtual-time-budget=4000",
)
PROBE = Path(__file__).with_name("page_probe.js")

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium: `apt-get install chromium`")


def dom_of(*runs, into):
    """Return the DOM of the page of some runs after its scripts and the probe have run."""
    path = into / "run.html"
    page = pages.render(
        [figures.measure(run, arm=f"arm-{place}") for place, run in enumerate(runs)]
    )
    probe = f"<script>{PROBE.read_text()}</script></body>"
    path.write_text(page.replace("</body>", probe), encoding="utf-8")
    shown = subprocess.run(
        [CHROMIUM, *FLAGS, f"--user-data-dir={into / 'profile'}", "--dump-dom", path.as_uri()],
        capture_output=True,
        text=True,
        timeout=90,
        check=True,
    )
    return shown.stdout


def attribute(dom, name):
    """Return an attribute that the page or the probe wrote, None if it did not."""
    found = re.search(rf'data-{name}="([^"]*)"', dom[:2000] + dom[dom.index("<body") :][:2000])
    return found.group(1) if found else None


@pytest.mark.parametrize(
    "run",
    [a.a_busy_run(), a.a_busy_run(workflows=40, tasks=50), a.a_run(), a.a_run(pods=[], calls=[])],
    ids=["352 pods", "2,000 pods", "one pod", "no pod"],
)
def test_the_charts_are_drawn_without_a_script_error(run, tmp_path):
    """However many pods there are; a blank canvas has one colour."""
    dom = dom_of(run, into=tmp_path)
    assert attribute(dom, "script-error") is None
    assert 4 + 2 * len(run.cluster.nodes) == int(attribute(dom, "charts-drawn"))
    assert int(attribute(dom, "colours")) > 3
    assert int(attribute(dom, "curves")) > 3
    assert "0" == attribute(dom, "cut")


def test_two_arms_show_their_curves_and_whole_tables(tmp_path):
    """Nothing is folded away, and at this width nothing has to be scrolled to."""
    dom = dom_of(a.a_busy_run(), a.a_busy_run(seed=2), into=tmp_path)
    assert attribute(dom, "script-error") is None
    assert ["0", "0"] == [attribute(dom, "folded"), attribute(dom, "cut")]
    assert int(attribute(dom, "curves")) > 3


def test_the_page_answers_to_a_person(tmp_path):
    """Facts on hover, zoom by dragging and back, colours, theme, sorting."""
    dom = dom_of(a.a_busy_run(), into=tmp_path)
    assert attribute(dom, "script-error") is None
    assert "memory requested, peak" in attribute(dom, "tooltip")
    seen = [attribute(dom, name) for name in ("zoomed", "restored", "recoloured")]
    assert ["true", "true", "true"] == seen
    assert len(a.TEMPLATES) == int(attribute(dom, "legend"))
    assert "dark" == attribute(dom, "theme")
    assert ["true", "true"] == [attribute(dom, "descending"), attribute(dom, "ascending")]


def test_two_thousand_pods_are_drawn_within_a_moment(tmp_path):
    """Loading, drawing and probing all of it, with the start of the browser."""
    started = time.monotonic()
    dom_of(a.a_busy_run(workflows=40, tasks=50), into=tmp_path)
    assert time.monotonic() - started < 45
