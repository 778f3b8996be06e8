"""What a search found, to read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import RenderableType
from rich.text import Text

from simcluster import units
from simcluster.draw import Cell, Column, quantities, render_text, renderables_html, text_table
from simcluster.search.planner import Objective, SearchResult, SimulatedPlan
from simcluster.search.report.reasons import why_it_lost
from simcluster.search.space import PlanChoice, search_keys


def search_text(result: SearchResult, *, top: int = 10, colour: bool = False) -> str:
    """The space and what became of its plans, the best plan, why others lost, and the Pareto front."""
    return render_text(*_parts(result, top), colour=colour)


def search_html(result: SearchResult, *, top: int = 10) -> str:
    """The same for a notebook."""
    return renderables_html(*_parts(result, top))


def _parts(result: SearchResult, top: int) -> Iterator[RenderableType]:
    scenario = result.space.scenario
    yield Text.assemble((scenario.name, "bold"), f": plans over {', '.join(result.space.keys)}")
    yield text_table([Column(), Column(wraps=True)], _space_rows(result), indent=2)
    yield ""
    yield Text(verdict(result), "" if result.best is not None else "red")
    best = result.best
    if best is None:
        return
    if result.own is not None and not result.own.refused:
        yield Text(_compared_with_own(result, best))
    shown = _shown(result, top)
    varied = varied_parts([plan.choice for plan in shown])
    yield ""
    yield text_table(
        [
            Column("#", quantity=True),
            *quantities("step", "at least", "MFU", "memory"),
            Column("plan, and why it is not the best", wraps=True),
        ],
        [_row(result, number, plan, best, varied) for number, plan in enumerate(shown, 1)],
    )
    common = [text for name, text in best.choice.described.items() if name not in varied]
    if len(shown) > 1 and common:
        yield Text(f"All of these: {', '.join(common)}.", "dim")
    front = ", ".join(
        f"{units.seconds(plan.figures.step_time_s)} with {units.size(plan.figures.memory)}"
        for plan in result.front
    )
    yield ""
    yield Text(f"Pareto front of time against memory, of the plans that were simulated: {front}.")


def varied_parts(choices: Sequence[PlanChoice]) -> list[str]:
    """What of plans is not the same for all of them, by what it is called; of one plan everything."""
    parts = [choice.described for choice in choices]
    names = dict.fromkeys(name for part in parts for name in part)
    return [name for name in names if len(parts) == 1 or len({part.get(name) for part in parts}) > 1]


def _space_rows(result: SearchResult) -> list[Sequence[Cell]]:
    space, bounded = result.space, result.bounded
    known = search_keys()
    rows: list[Sequence[Cell]] = [
        (name, (", ".join(values) or known[name].title) + _idle(space.idle_values(name)))
        for name, values in space.keys.items()
    ]
    counts = {
        "impossible": len(bounded.refused),
        "too large for the memory, by their bound": result.num_too_large,
        "simulated": len(result.simulated),
    }
    left = bounded.num_plans - sum(counts.values())
    counts |= {"slower, by their bound" if result.is_proven else "not looked at": left}
    listed = ", ".join(f"{count:,} {what}" for what, count in counts.items() if count)
    rows.append(("plans", f"{bounded.num_plans:,}: {listed}"))
    per_plan = bounded.cpu_s / max(1, bounded.num_plans)
    plural = "" if bounded.num_costed == 1 else "s"
    source = f"from the costs of layers in {bounded.num_costed:,} small plan{plural}"
    rows.append(
        ("bounds", f"{source}: {units.seconds(per_plan)} of processor time a plan, small plans included")
    )
    rows.append(("time", _time(result)))
    return rows


def _idle(values: Sequence[str]) -> str:
    """What is said of values that no plan has."""
    return f" (no plan has {' or '.join(values)}: batch, model or devices do not divide so)" if values else ""


def _time(result: SearchResult) -> str:
    first = "" if result.first_s is None else f"; the best one was known after {result.first_s:.1f} s"
    return f"{result.wall_s:.1f} s, {result.bound_s:.1f} s of it for bounds{first}"


def verdict(result: SearchResult) -> str:
    """The best plan and how sure that is, or what is nearest to fitting."""
    best = result.best
    if best is None:
        return _nothing(result)
    what = {
        Objective.STEP_TIME: "Fastest",
        Objective.COST: "Cheapest",
        Objective.MEMORY: "Smallest",
    }[result.objective]
    figures = best.figures
    cost = (
        "" if result.cost_of(figures) is None else f", {result.cost_of(figures):.4g} {result.currency} a step"
    )
    text = (
        f"{what}: {best.choice.text}: {units.seconds(figures.step_time_s)} a step{cost}, "
        f"{units.size(figures.memory)} of {units.size(figures.capacity)}. "
    )
    if result.is_proven:
        return text + "Proven: no other plan of the space can be better."
    if result.num_lost:
        return text + f"Not proven: {result.num_lost} plans died, out of memory or stopped by a signal."
    return text + (
        f"Not proven: the budget of {result.budget_s:g} s was spent, and a plan that was not simulated may "
        f"be up to {units.percent(result.gap)} better."
    )


def _nothing(result: SearchResult) -> str:
    nearest = result.nearest
    if nearest is None:
        reasons = sorted({reason for _, reason in result.bounded.refused})
        reason = f": {reasons[0]}" if reasons else ""
        return f"No plan of the space is possible{reason}."
    lacking = units.size(nearest.figures.lacking(result.limit))
    part = "" if result.limit is None else f" of which plans may use {units.percent(result.limit)}"
    return (
        f"No plan of the space fits; the nearest is {nearest.choice.text}, which needs "
        f"{units.size(nearest.figures.memory)} on a device of {units.size(nearest.figures.capacity)}{part}, "
        f"{lacking} too much. More devices, or more keys to choose (recompute, offload, optimizer_sharding) "
        "would help."
    )


def _compared_with_own(result: SearchResult, best: SimulatedPlan) -> str:
    own = result.own
    assert own is not None, "asked before"
    faster = own.step_time_s / best.figures.step_time_s - 1
    fits = "" if own.fits(result.limit) else ", and does not fit"
    if faster <= 0:
        return f"The scenario's own plan takes {units.seconds(own.step_time_s)}{fits}."
    return (
        f"The scenario's own plan takes {units.seconds(own.step_time_s)}{fits}: "
        f"the best is {units.percent(faster)} faster."
    )


def _shown(result: SearchResult, top: int) -> list[SimulatedPlan]:
    return [*result.fitting, *result.failing][:top]


def _row(
    result: SearchResult, number: int, plan: SimulatedPlan, best: SimulatedPlan, varied: Sequence[str]
) -> Sequence[Cell]:
    figures = plan.figures
    devices = result.space.setting.devices_per_host
    reason = "best" if plan is best else why_it_lost(plan, best, result.limit, devices)
    values = ["-"] * 4
    if not figures.refused:
        values = [
            units.seconds(figures.step_time_s),
            units.seconds(plan.least_s),
            units.percent(figures.mfu),
            units.size(figures.memory),
        ]
    plan_text = ", ".join(text for name, text in plan.choice.described.items() if name in varied)
    return [str(number), *values, Text.assemble(plan_text, "\n", (reason, "dim"))]
