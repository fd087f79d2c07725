"""Workflows that anybody may write, and that once held their reader up for minutes.

Unit tests read them to the end; `tests/bench/test_reading.py` holds what that costs.
"""

from collections.abc import Mapping

from tests.unit.argo.builders import (
    Object,
    a_dag,
    a_node,
    a_status,
    a_step,
    a_task,
    a_template,
    a_workflow,
    the_steps,
)


def an_image(image: str, **parameters: str) -> Object:
    """Return a Workflow of one container with this image; `parameters` are its defaults."""
    inputs = [{"name": name, "default": text} for name, text in parameters.items()]
    return a_workflow(a_template("main", container={"image": image}, inputs={"parameters": inputs}))


DOUBLING_LEVELS = 60


def a_doubling_workflow() -> Object:
    """Return 2^60 tasks in a kilobyte."""
    levels = [
        {"name": f"t{n}", "steps": [[a_step(s, template=f"t{n + 1}") for s in ("a", "b")]]}
        for n in range(DOUBLING_LEVELS)
    ]
    return a_workflow(*levels, a_template(f"t{DOUBLING_LEVELS}"))


WORKFLOWS: Mapping[str, Object] = {
    "tags that never end": an_image("{{" * 500000),
    "each names the next twice": an_image(
        "{{inputs.parameters.p0}}",
        **{f"p{n}": f"{{{{inputs.parameters.p{n + 1}}}}}" * 2 for n in range(35)},
        p35="",
    ),
    "a long value through many hands": a_workflow(
        the_steps([a_step("a", withSequence={"count": 2000})]),
        a_template(
            "work",
            container={"image": "{{inputs.parameters.p0}}"},
            inputs={
                "parameters": [
                    *(
                        {"name": f"p{n}", "default": f"{{{{inputs.parameters.p{n + 1}}}}}"}
                        for n in range(30)
                    ),
                    {"name": "p30", "default": "x" * 900000},
                ]
            },
        ),
    ),
    "a wide fan-out asked for again and again": a_workflow(
        the_steps(
            [a_step("a", withSequence={"count": 1000})],
            [a_step(f"b{n}", withParam="{{steps.a.outputs.result}}") for n in range(500)],
        ),
        status=a_status(
            *(
                a_node(f"wf[0].a({n}:x)", "Succeeded", outputs={"result": "r" * 500})
                for n in range(1000)
            )
        ),
    ),
    "a long patch": a_workflow(
        the_steps([a_step("a", withSequence={"count": 2000})]),
        a_template("work", podSpecPatch='{"x":"' + "y" * 900000 + '"}'),
    ),
    "many parameters": a_workflow(
        a_dag(*(a_task(f"t{n}") for n in range(5000))),
        a_template(
            "work",
            container={"image": "{{inputs.parameters.last}}"},
            inputs={
                "parameters": [
                    *({"name": f"p{n}", "value": "v"} for n in range(20000)),
                    {"name": "last", "value": "x"},
                ]
            },
        ),
    ),
    "calls that double": a_doubling_workflow(),
}

NODE_NAMES = (")" * 250_000, "(" * 125_000 + ")" * 125_000)
"""Of pods: an annotation may be as long as all annotations together."""
