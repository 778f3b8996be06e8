"""The pipeline of a foreign file: its schedule, virtual stages, and the layers of every stage."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from simcluster.foreign.reading import Flag
from simcluster.foreign.translation import Facts

Put = Callable[[str, Any, Flag | None], None]

_FOLDED = ("zb_v", "dualpipe_v", "v_half")
"""Schedules of two chunks on every device, said or not."""

_SLICED = ("seqpipe", "seqvpp", "seqsmartvpp")
"""Schedules in which slices of sequences go through the stages one by one."""


def state_pipeline(facts: Facts, put: Put) -> None:
    """Writes the schedule, its chunks and the layers of every stage."""
    stages = facts.get("pipeline", 1)
    if stages <= 1:
        for name in ("chunks", "layers_per_chunk", "schedule", "p2p", "slices", "stage_layers"):
            if name in facts.known and facts.flag(name).where:
                facts.effectless(facts.drop(name), "without a pipeline")
        if facts.get("pairs"):
            put("parallel.schedule.pairs", True, facts.flag("pairs"))
        return
    layers = facts.get("model.layers")
    chunks, flag = virtual_chunks(facts)
    size = facts.get("layers_per_chunk")
    if flag.where and layers and size and (layers + counted_ends(facts)) % (size * stages):
        counted = f" + {counted_ends(facts)} that count as layers" if counted_ends(facts) else ""
        quotient = (layers + counted_ends(facts)) / size / stages
        facts.wrong(flag, f"{layers} layers{counted} / ({size} x {stages} stages) = {quotient:g}")
    kind = facts.get("schedule", "1f1b")
    said = facts.flag("schedule") if "schedule" in facts.known else None
    if chunks > 1 and kind == "1f1b":
        put("parallel.schedule.kind", facts.get("interleaved", "interleaved"), said or flag)
        put("parallel.schedule.chunks", chunks, flag)
    elif kind in _SLICED:
        put("parallel.schedule.kind", kind, said)
        if kind != "seqpipe" and chunks > 1:
            put("parallel.schedule.chunks", chunks, flag)
        elif chunks > 1:
            facts.unsupported(flag, "with schedule seqpipe every device has 1")
            chunks = 1
    else:
        if chunks > 1 and not (kind in _FOLDED and chunks == 2):
            chunks = 2 if kind in _FOLDED else 1
            facts.unsupported(flag, f"with schedule {kind} every device has {chunks}")
        put("parallel.schedule.kind", kind, said)
    if (slices := facts.get("slices", 1)) > 1:
        if kind in _SLICED:
            put("parallel.schedule.slices", slices, facts.flag("slices"))
        else:
            facts.unsupported(facts.flag("slices"), f"with schedule {kind} sequences stay whole")
    if facts.get("pairs") and kind == "1f1b":
        put("parallel.schedule.pairs", True, facts.flag("pairs"))
    elif facts.get("pairs"):
        facts.unsupported(facts.flag("pairs"), f"with schedule {kind} forwards and backwards take turns")
    if "p2p" in facts.known:
        put("parallel.schedule.p2p", facts.get("p2p"), facts.flag("p2p"))
    if layers:
        _stages(facts, put, layers, stages, chunks)


def virtual_chunks(facts: Facts) -> tuple[int, Flag]:
    """Virtual stages of each device."""
    if facts.get("chunks"):
        return facts.get("chunks"), facts.flag("chunks")
    per_chunk, layers = facts.get("layers_per_chunk"), facts.get("model.layers")
    if not per_chunk or not layers:
        return 1, facts.flag("layers_per_chunk")
    parts = (layers + counted_ends(facts)) // (per_chunk * facts.get("pipeline", 1))
    return max(1, parts), facts.flag("layers_per_chunk")


def counted_ends(facts: Facts) -> int:
    """How many of embedding and loss count as layers where stages are cut."""
    return sum(bool(facts.get(name)) for name in ("embedding_counts", "loss_counts"))


def _stages(facts: Facts, put: Put, layers: int, stages: int, chunks: int) -> None:
    """Layers of every stage, shared by its chunks, where first or last differ from the rest."""
    if "stage_layers" in facts.known:
        _listed(facts, put, layers, stages, chunks)
        return
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
    if any(size % chunks for size in sizes):
        facts.wrong(flag, f"stages of {', '.join(map(str, sizes))} layers do not divide by {chunks} chunks")
        return
    of_chunk = [size // chunks for size in sizes]
    put("parallel.schedule.stages", [of_chunk] * chunks if chunks > 1 else sizes, flag)


def _listed(facts: Facts, put: Put, layers: int, stages: int, chunks: int) -> None:
    """The layers of every stage as the file lists them, or of every chunk in the order of the layers."""
    sizes, flag = facts.get("stage_layers"), facts.flag("stage_layers")
    if sum(sizes) != layers or min(sizes) < 1 or len(sizes) not in (stages, stages * chunks):
        total = " + ".join(map(str, sizes))
        parts = f"{stages} x {chunks} parts" if chunks > 1 else f"{stages} stages"
        total = f"{total} = {sum(sizes)} layers in {len(sizes)} parts"
        facts.wrong(flag, f"{total}, but the model has {layers} layers in {parts}")
    elif chunks == 1:
        put("parallel.schedule.stages", sizes, flag)
    elif len(sizes) == stages * chunks:
        rows = [sizes[chunk * stages : (chunk + 1) * stages] for chunk in range(chunks)]
        put("parallel.schedule.stages", rows, flag)
    else:
        facts.unsupported(flag, "chunks of equal size are simulated")
