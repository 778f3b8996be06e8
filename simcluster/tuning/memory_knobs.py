"""What can be changed to save memory: knobs from the smallest turn to the last, and how far they must go."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from simcluster.scenario import Scenario
from simcluster.tuning.scenario_trial import Changes, Trial, Trials

Knob = Sequence[Changes]
"""Turns of one knob, from the smallest."""

UNEVEN = ("tensor parallelism", "pipeline")
"""Knobs that may save less when turned further: fewer data-parallel ranks share the optimizer's states."""

OF_TRAINING = ("recompute auto", "recompute", "optimizer sharding")
"""Knobs of what only training has."""

MOST_DOUBLINGS = 3
"""How often a mesh axis is doubled at most."""


def open_knobs(scenario: Scenario, plan: Mapping[str, Any]) -> dict[str, Knob]:
    """The knobs that the plan leaves something to turn at, by what they are; ``plan`` is its document."""
    trained = scenario.spec.training is not None
    found = {
        name: tuple(turns(scenario, plan))
        for name, turns in _KNOBS.items()
        if trained or name not in OF_TRAINING
    }
    return {name: turns for name, turns in found.items() if turns}


def nearest_change(trials: Trials, name: str, turns: Knob) -> list[Trial]:
    """Tries a knob: the last turn first; if it fits, the smallest turn that does, by bisection.

    Of uneven knobs the first turn that fits. Everything that was tried, the answer last: where none fits, of
    those that are possible the one that lacks least.
    """
    if name in UNEVEN:
        return _first(trials, name, turns)
    found = [trials.run((name,), turns[-1])]
    if found[0].refused:
        # A turn less may be possible where the last is not.
        for changes in reversed(turns[:-1]):
            found.append(trials.run((name,), changes))
            if not found[-1].refused:
                break
        turns = turns[: len(turns) - len(found) + 1]
    best = found[-1]
    if not best.fits:
        return found
    low, high = 0, len(turns) - 1
    while low < high:
        middle = (low + high) // 2
        trial = trials.run((name,), turns[middle])
        found.append(trial)
        if trial.fits:
            best, high = trial, middle
        else:
            low = middle + 1
    return [*(each for each in found if each is not best), best]


def _first(trials: Trials, name: str, turns: Knob) -> list[Trial]:
    """Turns in order until one fits; if none does, the one that lacks least comes last."""
    found: list[Trial] = []
    for changes in turns:
        found.append(trials.run((name,), changes))
        if found[-1].fits:
            return found
    best = min(found, key=lambda each: each.nearness)
    return [*(each for each in found if each is not best), best]


def _chosen(scenario: Scenario, plan: Mapping[str, Any]) -> Iterator[Changes]:
    """Recomputation as the simulator chooses it: of what fits the fastest, by stage and operator."""
    spec = scenario.spec.parallel.recompute
    if spec.nothing:
        yield (("parallel.recompute", "auto"),)


def _recompute(scenario: Scenario, plan: Mapping[str, Any]) -> Iterator[Changes]:
    """One layer of each stage more, up to all."""
    spec = scenario.spec.parallel.recompute
    if not isinstance(spec.layers, int) and spec.layers != "none":
        return
    present = spec.layers if isinstance(spec.layers, int) else 0
    for count in range(present + 1, max(plan["layers_per_stage"])):
        # Operators go with some layers, not with all.
        some = ("parallel.recompute.layers", str(count)) if spec.operators else None
        yield (some or ("parallel.recompute", f"{{layers: {count}}}"),)
    yield (("parallel.recompute", "{layers: all}"),)


def _sharding(scenario: Scenario, plan: Mapping[str, Any]) -> Iterator[Changes]:
    """The next stages of ZeRO."""
    present = plan["optimizer_sharding"]
    level = sum(bool(present[name]) for name in ("states", "gradients", "weights"))
    if plan["data_parallel_ways"] == 1 or (level and present["split"] != "flat"):
        return
    for zero in range(level + 1, 4):
        yield (("parallel.optimizer_sharding", f"{{zero: {zero}}}"),)


def _offload(scenario: Scenario, plan: Mapping[str, Any]) -> Iterator[Changes]:
    """States on the host, then activations, then weights, where these can be."""
    if any(host.pcie is None for host in scenario.cluster.kinds):
        return
    present, sharding = scenario.spec.parallel.offload, plan["optimizer_sharding"]
    whole = bool(sharding["weights"]) or not sharding["states"]
    away: list[str] = []
    kept = ("optimizer_states", "activations") if scenario.spec.training else ()
    for category in (*kept, *(("parameters",) if whole else ())):
        if getattr(present, category) is None:
            away.append(category)
            yield tuple((f"parallel.offload.{each}", "host") for each in away)


def _micro_batch(scenario: Scenario, plan: Mapping[str, Any]) -> Iterator[Changes]:
    """Fewer samples at a time."""
    section = "training" if scenario.spec.training else "inference"
    size = int(plan["micro_batch"]) * scenario.spec.parallel.copies
    while size % (2 * scenario.spec.parallel.copies) == 0:
        size //= 2
        yield ((f"{section}.micro_batch", str(size)),)


def _cache(scenario: Scenario, plan: Mapping[str, Any]) -> Iterator[Changes]:
    """Keys and values kept in fewer bits."""
    if plan.get("inference", {}).get("cache") in ("fp32", "fp16", "bf16"):
        yield (("inference.cache", "fp8"),)


def _axis(axis: str) -> Callable[[Scenario, Mapping[str, Any]], Iterator[Changes]]:
    """More ranks along an axis at the cost of data parallelism."""

    def turns(scenario: Scenario, plan: Mapping[str, Any]) -> Iterator[Changes]:
        mesh = dict(scenario.spec.parallel.sizes)
        order = [name for name in ("pipeline", *mesh, "tensor") if name in mesh or name == axis]
        for _ in range(MOST_DOUBLINGS):
            if mesh.get("data", 1) % 2:
                return
            mesh["data"] //= 2
            mesh[axis] = 2 * mesh.get(axis, 1)
            sizes = ", ".join(f"{name}: {mesh[name]}" for name in dict.fromkeys(order))
            yield (("parallel.mesh", f"{{{sizes}}}"),)

    return turns


_KNOBS: Mapping[str, Callable[[Scenario, Mapping[str, Any]], Iterator[Changes]]] = {
    "recompute auto": _chosen,
    "recompute": _recompute,
    "optimizer sharding": _sharding,
    "offload": _offload,
    "micro-batch": _micro_batch,
    "cache": _cache,
    "tensor parallelism": _axis("tensor"),
    "pipeline": _axis("pipeline"),
}
