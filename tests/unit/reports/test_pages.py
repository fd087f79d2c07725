import html.parser
import json
import re

import pytest

from lab.reports import clockworks, figures, pages, tables
from tests.unit.reports import synthetic_runs as a

NASTY = "</script><script>alert(1)</script><img src=x onerror=alert(2)>&\"'"


def page_of(*runs):
    """Return the page of some runs; the second and later ones under another arm."""
    arms = [
        figures.measure(run, arm="default" if index == 0 else f"arm-{index}")
        for index, run in enumerate(runs)
    ]
    return pages.render(arms)


class Elements(html.parser.HTMLParser):
    """Counts start tags and remembers attributes and text."""

    def __init__(self, page):
        super().__init__()
        self.tags, self.links, self.text = [], [], ""
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.links += [value for name, value in attrs if name in ("src", "href")]

    def handle_data(self, data):
        self.text += data


def test_the_page_is_self_contained():
    """It is sent by mail and opened from a disk, without a network."""
    page = page_of(a.a_busy_run())
    assert ["data:,"] == Elements(page).links
    assert [] == re.findall(r"(?:https?:)?//[a-z0-9.]+\.[a-z]{2,}|url\(|@import", page)
    assert "default-src 'none'" in page


def test_names_cannot_become_markup():
    """A workflow, template, task and family may be called anything."""
    pod = a.a_pod(name="wf-0-x", task=NASTY, template=NASTY)
    workflow = a.a_workflow(family=NASTY, message=NASTY)
    calls = [a.a_call(0, "create", "workflows", "wf-0"), *a.calls_of(pod)]
    found = Elements(page_of(a.a_run(pods=[pod], calls=calls, workflows=[workflow], mix=NASTY)))
    assert 2 == found.tags.count("script")
    assert "img" not in found.tags
    assert NASTY in found.text


def test_the_charts_get_every_bound_pod():
    """What was drawn can be counted."""
    page = page_of(a.a_busy_run())
    data = re.search(r'id="data">(.*?)</script>', page, re.DOTALL)
    (arm,) = json.loads(data.group(1))
    assert {352} == {len(column) for column in arm["tasks"].values()}
    assert 4 == len(arm["nodes"])
    assert 16 == len(arm["workflows"])


def test_headline_and_tables_stand_without_a_script():
    """Figures are text in the HTML."""
    run = a.a_busy_run()
    measured = figures.measure(run)
    text = Elements(pages.render([measured])).text
    assert f"{measured.figures.mean_completion_s / 60:,.1f}" in text
    assert all(item.name in text for item in measured.workflows)
    assert all(name in text for name in a.TEMPLATES)


def test_the_page_says_which_times_are_scaled_set_and_wall():
    """Each below its heading, with the speed; the three lists say nothing twice."""
    text = Elements(page_of(a.a_run(speed=60.0))).text.partition("Which time is which")[2]
    scaled, _, rest = text.partition("Set, as it cannot run faster")
    chosen, _, wall = rest.partition("Wall time, whatever the speed")
    assert "Simulated time, 60 times faster than the clock on the wall" in scaled
    lists = (clockworks.SCALED, clockworks.CHOSEN, clockworks.WALL)
    for part, lines in zip((scaled, chosen, wall), lists, strict=True):
        assert all(line in part for line in lines)
        assert not any(line in part for other in lists if other is not lines for line in other)


def test_an_invalid_run_says_so_and_why():
    """With the speed that was too high."""
    calls = list(a.a_run().calls)
    calls[1] = a.a_call(1.0, "create", "pods", calls[1].name, latency_s=0.5)
    page = page_of(a.a_run(calls=calls))
    assert 'class="verdict bad"' in page
    assert "too slow for speed 60" in page


def test_problems_are_listed_up_to_a_limit():
    """The JSON has all of them."""
    run = a.a_busy_run()
    calls = tuple(call for call in run.calls if call.resource != "pods/binding")
    page = page_of(a.a_run(**{**parts(run), "calls": calls}))
    assert tables.MOST_PROBLEMS == page.count("the audit log has no binding of it")
    assert "and 332 more problems" in page


def parts(run):
    """Return what a run was built from, to build it again with a change."""
    record = {name: getattr(run.record, name) for name in run.record.__struct_fields__}
    return record | {
        "calls": run.calls,
        "pods": run.pods,
        "samples": run.samples,
        "faults": run.faults,
        "cluster": run.cluster,
    }


@pytest.mark.parametrize("run", [a.a_run(), a.a_run(pods=[], calls=[], workflows=[])])
def test_small_runs_have_a_page_too(run):
    """One pod, or none at all."""
    assert "<canvas" in page_of(run)


def test_several_arms_share_a_page():
    """The comparison of a later experiment: one table, one pair of charts each."""
    page = page_of(a.a_busy_run(), a.a_busy_run(seed=2))
    assert 2 == page.count('class="arm"')
    assert "arm-1" in page
    heads = re.findall(r'<th scope="row">([^<]*)', page)
    assert {"Makespan", "Deadlines missed", "Mean wait of a pod"} <= set(heads)


def test_curves_of_several_arms_are_open_behind_all_gantt_charts():
    """These stand above each other, on one time axis; nothing that is announced is folded away."""
    page = page_of(a.a_busy_run(), a.a_busy_run(seed=2))
    order = re.findall(r'<section class="(arm|use)"', page)
    assert ["arm", "arm", "use", "use"] == order
    for curves in page.split('<section class="use"')[1:]:
        assert "<details" not in curves.partition('<div class="curves cluster">')[0]


def test_only_sample_data_has_a_banner():
    """A page is sent around without the terminal that warned of it."""
    said = "SAMPLE DATA"
    assert said in page_of(a.a_run(sample=True))
    assert said not in page_of(a.a_run(sample=False))


def test_a_page_of_two_thousand_pods_stays_small():
    """Below a megabyte, so that it opens at once."""
    page = page_of(a.a_busy_run(workflows=40, tasks=50))
    assert len(page) < 1_000_000
