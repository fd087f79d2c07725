"""A workflow between trace and plan: its graph, its shape in Argo, and what each task does.

Mixes make drafts; `mixes.generate` lets authors write requests for all drafts of a run together,
because one pipeline definition serves all runs of it, and turns them into plans and truths.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from lab.truths import Truth
from lab.workloads import authors, draws, plans, programs, shapes, traces


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """One workflow; `tasks` and `works` are in the same order."""

    family: str
    source: str
    tenant: authors.Tenant
    word: str
    """What differs between equal tasks: `sample`, `chunk`, …."""
    tasks: tuple[traces.TraceTask, ...]
    works: tuple[programs.Work, ...]
    shape: shapes.Shape
    given: Mapping[str, authors.Written] = field(default_factory=dict)
    """Requests that are part of the case, by program; others are drawn."""

    @property
    def work_core_s(self) -> float:
        """CPU seconds of all its tasks at speed 1."""
        return sum(work.cpu_s for work in self.works)

    @property
    def critical_path_s(self) -> float:
        """Length of its longest path with nothing in the way."""
        parents = [task.parents for task in self.tasks]
        return traces.longest_path(parents, [work.runtime_s for work in self.works])


def planned(
    draft: Draft,
    *,
    name: str,
    arrival_s: float,
    written: Mapping[str, authors.Written],
) -> plans.WorkflowPlan:
    """Return the plan of a draft; `written` holds what stands in each program's template."""
    shape = draft.shape
    listing = {shape.templates[index] for index in shape.listed}
    parents = [task.parents for task in draft.tasks]
    critical_path_s = draft.critical_path_s
    return plans.WorkflowPlan(
        name=name,
        namespace=draft.tenant.namespace,
        family=draft.family,
        source=draft.source,
        entrypoint=shapes.ROOT,
        programs=tuple(
            authors.program(
                template,
                family=draft.family,
                word=draft.word,
                author=written[template],
                lists_items=template in listing,
            )
            for template in dict.fromkeys(shape.templates)
        ),
        graphs=shape.graphs,
        pods=tuple(
            plans.Pod(
                task=path,
                template=shape.templates[index],
                parents=tuple(shape.paths[parent] for parent in task.parents),
            )
            for index, (path, task) in enumerate(zip(shape.paths, draft.tasks, strict=True))
        ),
        arrival_s=arrival_s,
        deadline_s=authors.deadline_s(draft.tenant, critical_path_s),
        priority=draft.tenant.priority,
        uses_depends=draft.tenant.uses_depends,
        pod_gc=draft.tenant.pod_gc,
        critical_path_s=draws.rounded(critical_path_s),
        depth=1 + max(traces.levels_of(parents)),
    )


def truths_of(draft: Draft, plan: plans.WorkflowPlan) -> list[Truth]:
    """Return the truth about each pod of the plan, in the order of its pods."""
    shape = draft.shape
    listing = {shape.templates[index] for index in shape.listed}
    found = []
    for index, (work, pod) in enumerate(zip(draft.works, plan.pods, strict=True)):
        inputs = tuple(
            (f"{plan.name}/{shape.paths[parent]}", draft.works[parent].written_bytes)
            for parent in draft.tasks[index].parents
        )
        reference = f"{draft.family}/{pod.template}/reference"
        # Every pod of a template that has the output must report it, also one that lists nothing.
        listed = (
            {"items": shapes.items_json(shape.listed.get(index, ()))}
            if pod.template in listing
            else {}
        )
        found.append(
            Truth(
                namespace=plan.namespace,
                workflow=plan.name,
                task=pod.task,
                template=f"{draft.family}/{pod.template}",
                cpu_s=work.cpu_s,
                parallelism=float(work.threads),
                memory_traffic_bytes_per_s=work.traits.memory_traffic_bytes_per_s,
                memory_sensitivity=work.traits.memory_sensitivity,
                reads=programs.files_read(work, reference=reference, inputs=inputs),
                written_bytes=work.written_bytes,
                disk_ops=draws.rounded(
                    (work.read_bytes + work.written_bytes) / work.traits.op_bytes
                ),
                store_bytes=work.store_bytes,
                sibling_bytes=work.sibling_bytes,
                round_trips=work.round_trips,
                siblings=tuple(shape.paths[sibling] for sibling in work.siblings),
                gpu_s=work.gpu_s,
                memory_curve=work.memory_curve,
                image_bytes=work.traits.image_bytes,
                outputs=listed,
            )
        )
    return found
