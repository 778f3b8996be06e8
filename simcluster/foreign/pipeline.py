"""The pipeline of a foreign file: its schedule, virtual stages, and the layers of every stage."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from simcluster.foreign.accepted import accepts
from simcluster.foreign.facts import Facts
from simcluster.foreign.flag import Flag

Put = Callable[[str, Any, Flag | None], None]

_ONE_PER_DEVICE = "one stage per device is simulated, with {chunks} times the pipeline bubble"


def pipeline(facts: Facts, put: Put) -> None:
    """Writes the schedule and the stages; lists virtual stages where no schedule has them."""
    stages = facts.get("pipeline", 1)
    if stages <= 1:
        for name in ("chunks", "layers_per_chunk", "schedule", "p2p"):
            if name in facts.known and facts.flag(name).where:
                facts.effectless(facts.drop(name), "without a pipeline")
        return
    layers = facts.get("model.layers")
    chunks, flag = _chunks(facts, layers, stages)
    kind = facts.get("schedule", "1f1b")
    schedule = {"kind": "interleaved", "chunks": chunks}
    if chunks > 1 and kind == "1f1b" and accepts("parallel.schedule", schedule):
        put("parallel.schedule.kind", "interleaved", flag)
        put("parallel.schedule.chunks", chunks, flag)
    else:
        if chunks > 1:
            facts.unsupported(flag, _ONE_PER_DEVICE.format(chunks=chunks))
        if not accepts("parallel.schedule", {"kind": kind}):
            facts.unsupported(facts.flag("schedule"), "1f1b is simulated")
            kind = "1f1b"
        put("parallel.schedule.kind", kind, facts.flag("schedule") if "schedule" in facts.known else None)
    if "p2p" in facts.known:
        put("parallel.schedule.p2p", facts.get("p2p"), facts.flag("p2p"))
    if layers:
        _stages(facts, put, layers, stages)


def _chunks(facts: Facts, layers: int | None, stages: int) -> tuple[int, Flag]:
    """Virtual stages of each device."""
    if facts.get("chunks"):
        return facts.get("chunks"), facts.flag("chunks")
    each, flag = facts.get("layers_per_chunk"), facts.flag("layers_per_chunk")
    if not each or not layers:
        return 1, flag
    chunks, left = divmod(layers, each * stages)
    if left:
        facts.wrong(flag, f"{layers} layers / ({each} x {stages} stages) = {layers / each / stages:g}")
    return max(1, chunks), flag


def _stages(facts: Facts, put: Put, layers: int, stages: int) -> None:
    """Layers of every stage where first or last differ from the rest."""
    ends = [facts.get("first_layers"), facts.get("last_layers")]
    given = [name for name in ("first_layers", "last_layers") if name in facts.known]
    if not given:
        return
    flag = facts.flag(given[0])
    between = stages - len(given)
    rest = layers - sum(end for end in ends if end)
    if between < 0 or rest < 0 or (rest % between if between else rest):
        facts.wrong(flag, f"{rest} of {layers} layers are left for {between} stages")
        return
    sizes = [rest // between if between else 0] * between
    if ends[0]:
        sizes.insert(0, ends[0])
    if ends[1]:
        sizes.append(ends[1])
    put("parallel.schedule.stages", sizes, flag)
