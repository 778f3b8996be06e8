"""A scenario to begin with: its text with a remark on every line, and what was tried on the way to it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from simcluster import units
from simcluster.analysis import MemoryUse
from simcluster.cli.output.exit_code import ExitCode
from simcluster.cli.output.progress import progress_line
from simcluster.cli.output.scenario_target import Target
from simcluster.cli.output.terminal import print_note
from simcluster.plan import IDEAL
from simcluster.scenario import commented_yaml
from simcluster.search import (
    SearchResult,
    SimulatedPlan,
    find_first_fit,
    improve_fit,
    plan_data,
    verdict,
    why_it_lost,
)
from simcluster.tuning import Attempt, FirstFit, SearchRequest
from simcluster.workers import local_executor, usable_cpus

_MOST_OTHERS = 8
"""Plans that lost that are told of."""

_ALWAYS = {
    "simcluster": "version of the scenario format",
    "name": "what reports call it",
    "cluster": "the hardware",
    "cluster.use": "a host of the catalog: simcluster catalog hosts",
    "cluster.hosts": "how many of them",
    "framework": "a profile of the catalog: simcluster catalog frameworks",
    "model": "what is trained",
    "model.use": "a model of the catalog, or its dimensions: layers, hidden, heads, ...",
    "training": "one step",
    "training.micro_batch": "sequences at a time on each data-parallel rank",
    "training.precision": "weights and activations; gradients and master copy in fp32",
    "training.optimizer": "with its usual constants",
    "parallel": "the plan",
    "parallel.mesh": "axes, outermost first: ranks of the last one are neighbours",
    "parallel.mesh.pipeline": "stages, each with its share of the layers",
    "parallel.mesh.expert": "data-parallel ranks that share the experts of every layer",
    "parallel.mesh.tensor": "ranks inside a host that share every layer",
    "parallel.schedule": "how micro-batches go through the stages",
    "parallel.schedule.kind": "how micro-batches follow each other: simcluster schedule draws it",
    "parallel.schedule.chunks": "pieces of the model on every stage: a smaller bubble, more transfers",
    "parallel.optimizer_sharding": "ZeRO",
    "parallel.optimizer_sharding.zero": "optimizer states are spread over the data-parallel ranks",
    "parallel.recompute.operators": "the cores of attention run again: little work, much memory",
    "parallel.recompute": "what the backward computes again instead of keeping",
}
_BOUND = (
    "The profile ideal is a bound, not an estimate: it wastes nothing. With the profile of your framework "
    "(--framework), another plan may fit."
)

_BY_VALUE = {
    ("framework", IDEAL): "a bound: nothing is wasted; the others: simcluster catalog frameworks",
    ("parallel.recipe", "megatron_sp"): "tensor and sequence parallelism of transformer layers",
    ("parallel.recipe", "megatron"): "tensor parallelism of transformer layers",
    ("parallel.optimizer_sharding", "fsdp"): "weights, gradients and states are sharded, as by fully_shard",
    ("parallel.recompute.layers", "none"): "nothing: all would save memory for time",
    ("parallel.schedule.kind", "1f1b"): "one forward, one backward; or gpipe",
    ("parallel.recompute.layers", "all"): "every layer keeps only its input, and runs again",
}


def write_init_scenario(start: SearchRequest, target: Target, *, quick: bool) -> ExitCode:
    """Finds a plan that fits, the fastest unless ``quick``, and writes it; says what was tried.

    Exit code 1, and nothing written, if none fits. Raises ScenarioError for wrong names and sizes.
    """
    name = f"{start.model} on {start.hosts} x {start.cluster}"
    with progress_line(name, doing="planning"):
        first = find_first_fit(start)
    for attempt in first.attempts:
        print_note(f"tried {_attempt_text(attempt)}")
    result = None
    if not quick:
        with (
            progress_line(name, doing="searching the fastest plan"),
            local_executor(usable_cpus(), usable_cpus()) as workers,
        ):
            result = improve_fit(first, workers)
    if result is not None and result.best is not None:
        print_note(f"of {_searched(result)}: {verdict(result)}")
        target.write(best_plan_text(start, first, result, result.best))
        return ExitCode.DONE
    if first.chosen is None:
        print_note(_miss(first))
        return ExitCode.FAILED
    target.write(init_scenario_text(start, first, first.chosen))
    return ExitCode.DONE


def init_scenario_text(start: SearchRequest, result: FirstFit, chosen: Attempt) -> str:
    """The scenario with a remark on every line, and the candidates before it."""
    head = [
        f"The first plan that fits for {start.model} on {start.hosts} x {start.cluster}: "
        f"{_needs(chosen.use)} on the fullest device.",
        *([_BOUND] if start.framework == IDEAL else []),
        "Tensor parallelism grows up to the devices of a host, then the pipeline grows, then all layers are "
        "recomputed. A plan to begin with, not the fastest: change it and run it.",
    ]
    tail = ["Tried:", *(f"- {_attempt_text(attempt)}" for attempt in result.attempts)]
    return commented_yaml(chosen.data, dict(_remarks(chosen.data, start)), head=head, tail=tail)


def best_plan_text(start: SearchRequest, first: FirstFit, result: SearchResult, best: SimulatedPlan) -> str:
    """The scenario of the best plan with a remark on every line, and why the others lost."""
    base = first.chosen or first.nearest
    assert base is not None, "there was something to begin with"
    data = plan_data(base.data, best.choice)
    figures = best.figures
    use = MemoryUse(figures.memory, 0, figures.capacity, figures.headroom)
    head = [
        f"The fastest plan for {start.model} on {start.hosts} x {start.cluster} of {_searched(result)}: "
        f"{units.seconds(figures.step_time_s)} a step, {_needs(use)} on the fullest device.",
        *([_BOUND] if start.framework == IDEAL else []),
        "Other keys to choose, such as schedules and offload: simcluster search.",
    ]
    devices = result.space.setting.devices_per_host
    others = [plan for plan in (*result.fitting, *result.failing) if plan is not best]
    tail = [
        "Other plans, and why they are not better:",
        *(
            f"- {plan.choice.text}: {why_it_lost(plan, best, result.limit, devices)}"
            for plan in others[:_MOST_OTHERS]
        ),
    ]
    return commented_yaml(data, dict(_remarks(data, start)), head=head, tail=tail if others else ())


def _searched(result: SearchResult) -> str:
    """How many plans were looked at, and over what."""
    keys = [*result.space.keys]
    return f"{result.bounded.num_plans:,} plans over {', '.join(keys[:-1])} and {keys[-1]}"


def _remarks(data: Mapping[str, Any], start: SearchRequest) -> Iterator[tuple[str, str]]:
    """A remark for every key path of the scenario."""
    for path, value in _paths(data, ""):
        yield path, _BY_VALUE.get((path, str(value))) or _ALWAYS.get(path, "")
    training, mesh = data["training"], data["parallel"]["mesh"]
    batch, seq_len, ways = training["global_batch"], training["seq_len"], mesh["data"] * mesh.get("expert", 1)
    size = training["micro_batch"]
    steps = batch // ways // size
    of_size = f" of {size}" if size > 1 else ""
    yield (
        "training.global_batch",
        f"sequences per step, {units.count(batch * seq_len)} tokens: "
        f"{ways} ranks x {steps} micro-batches{of_size}"
        f"{'' if start.global_batch else '; change it freely'}",
    )
    said = "" if start.seq_len else "; change it freely"
    yield "training.seq_len", f"tokens per sequence{said}"
    yield "parallel.mesh.data", "what tensor and pipeline leave: each rank trains on its own sequences"


def _paths(data: Mapping[str, Any], path: str) -> Iterator[tuple[str, Any]]:
    for key, value in data.items():
        name = f"{path}.{key}" if path else key
        yield name, value
        if isinstance(value, Mapping):
            yield from _paths(value, name)


def _attempt_text(attempt: Attempt) -> str:
    """One candidate and what became of it."""
    if attempt.refused:
        return f"{attempt.plan}: impossible: {attempt.refused}"
    least = "" if attempt.simulated else "at least "
    return f"{attempt.plan}: {attempt.use.verdict}, {least}{_needs(attempt.use)}"


def _needs(use: MemoryUse) -> str:
    """``75.2 GiB of 79.1 GiB``, and the headroom that must stay free, if any."""
    asked = f", of which {units.size(use.headroom)} must stay free" if use.headroom else ""
    return f"{units.size(use.needed)} of {units.size(use.capacity)}{asked}"


def _miss(result: FirstFit) -> str:
    nearest = result.nearest
    if nearest is None:
        return "no plan is possible"
    lacking = units.size(nearest.use.lacking)
    return (
        f"no plan fits; the nearest miss is {nearest.plan}, which lacks {lacking} per device. More hosts, "
        "shorter sequences or a smaller model would fit"
    )
