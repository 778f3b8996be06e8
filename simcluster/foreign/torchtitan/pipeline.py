"""Pipelines of torchtitan: micro-batches of a local batch, and the layers of every stage."""

from __future__ import annotations

import math
import re
from itertools import pairwise
from typing import Any

from simcluster.foreign.importer_interface import UserAdditions
from simcluster.foreign.pytorch import layers_of_model
from simcluster.foreign.reading import Flag
from simcluster.foreign.translation import Facts

LOCAL = "local batch"
SIZE, COUNT = "micro-batch size", "micro-batches"
PER_STAGE, FIRST, LAST, PARTS = "layers per stage", "first less", "last less", "parts"

SCHEDULES = {
    "1f1b": "1f1b",
    "gpipe": "gpipe",
    "interleaved1f1b": "interleaved",
    "zbvzerobubble": "zb_v",
    "dualpipev": "dualpipe_v",
}
_FOLDED = ("zb_v", "dualpipe_v")
_SEVERAL = ("interleaved", *_FOLDED)
_CHUNKS = 2
"""Stages that every rank has in schedules of several, unless layers per stage say otherwise."""

_LAYER = re.compile(r"layers\.(\d+)")


def state_batch(facts: Facts) -> None:
    """The micro-batch, and how many of them a local batch is cut into where there is a pipeline."""
    if LOCAL not in facts.known and "training.micro_batch" not in facts.settings:
        facts.default(LOCAL, 8, "local_batch_size = 8 (torchtitan's default, from memory)")
    if LOCAL not in facts.known:
        return
    local, flag = facts.get(LOCAL), facts.flag(LOCAL)
    stages = facts.get("pipeline", 1)
    if stages <= 1:
        facts.drop_effectless((SIZE, COUNT), "without a pipeline")
        facts.say("training.micro_batch", local, flag)
        return
    if not {SIZE, COUNT} & facts.known.keys():
        _usual_size(facts, stages)
    if SIZE in facts.known:
        size = facts.get(SIZE)
    else:
        size = local // facts.get(COUNT) if facts.get(COUNT) > 0 and local % facts.get(COUNT) == 0 else 0
    cause = facts.flag(SIZE if SIZE in facts.known else COUNT)
    if size < 1 or local % size:
        facts.wrong(flag, f"a local batch of {local} is not cut into whole micro-batches by {cause}")
        return
    facts.say("training.micro_batch", size, cause)
    facts.remark(f"{flag}: {local // size} micro-batches of {size} for each data-parallel way")
    if "training.global_batch" in facts.known:
        facts.remark("gradient accumulation: the pipeline does not drain between local batches here")
    else:
        facts.say("accumulation", local // size, flag)


def _usual_size(facts: Facts, stages: int) -> None:
    """Micro-batches of one sample; as many as there are stages, where the degree is in ``experimental``."""
    if facts.flag("pipeline").name.startswith("experimental."):
        count = stages * (_CHUNKS if facts.get("schedule", "1f1b") in _SEVERAL else 1)
        text = (
            f"pipeline_parallel_microbatches = {count}: as many as stages (torchtitan's default before 2025)"
        )
        facts.default(COUNT, count, text)
    else:
        facts.default(SIZE, 1, "pipeline_parallel_microbatch_size = 1 (torchtitan's default)")


def state_stages(facts: Facts, given: UserAdditions) -> None:
    """The layers of every stage: as listed, or as torchtitan spreads them.

    It counts embedding and head as a layer each (``generate_llm_fqn_per_model_part``).
    """
    stages = facts.get("pipeline", 1)
    if stages <= 1:
        facts.drop_effectless((PER_STAGE, FIRST, LAST, PARTS), "without a pipeline")
        return
    kind, layers = facts.get("schedule", "1f1b"), layers_of_model(facts, given)
    if layers is None:
        return
    several = kind in _SEVERAL
    flag = next((facts.flag(name) for name in (PARTS, PER_STAGE) if name in facts.known), None)
    flag = flag or facts.flag("pipeline")
    if PARTS in facts.known:
        sizes = _listed(facts.get(PARTS), layers)
        parts = len(sizes) if sizes else 0
    else:
        first, last = facts.get(FIRST, 1), facts.get(LAST, 1)
        if per_stage := facts.get(PER_STAGE):
            parts = math.ceil((layers + first + last) / per_stage)
        else:
            parts = stages * (_CHUNKS if several else 1)
        sizes = _spread(layers, parts, first, last)
    if not sizes or min(sizes) < 0 or parts % stages or (parts > stages) != several:
        named = facts.flag("schedule") if "schedule" in facts.known else "1F1B"
        message = f"{parts} parts of {layers} layers do not go with {stages} ranks and {named}"
        facts.wrong(flag, message)
        return
    chunks = parts // stages
    if chunks > 1 and kind == "interleaved":
        facts.say("chunks", chunks, facts.flag("schedule"))
        facts.replace("schedule", "1f1b", facts.flag("schedule"))
    rows = [sizes[chunk * stages : (chunk + 1) * stages] for chunk in range(chunks)]
    if kind in _FOLDED:
        facts.default("p2p", "overlapped", "two stages of this schedule send to each other at once")
        rows = [row[::-1] if index % 2 else row for index, row in enumerate(rows)]
    facts.say("parallel.schedule.stages", rows if chunks > 1 else sizes, flag)
    shown = ", ".join(map(str, sizes))
    facts.remark(f"layers of the stages, embedding and head counted as torchtitan does: {shown}")


def _spread(layers: int, parts: int, first: int, last: int) -> list[int]:
    """Layers of every part, the first ones with more, if embedding and head count as so many."""
    if parts == 1:
        return [layers]
    size, more = divmod(layers + first + last, max(parts, 1))
    sizes = [size + (part < more) for part in range(parts)]
    if sizes:
        sizes[0] -= first
        sizes[-1] -= last
    return sizes


def _listed(parts: Any, layers: int) -> list[int] | None:
    """Layers of every part by the names of modules in it, or by where the next part begins; else None."""
    if isinstance(parts, str):
        parts = [name.strip() for name in parts.split(",") if name.strip()]
    if not isinstance(parts, list) or not parts:
        return None
    if all(isinstance(part, list) for part in parts):
        sizes = [sum(bool(_LAYER.fullmatch(str(name))) for name in part) for part in parts]
        return sizes if sum(sizes) == layers else None
    cuts = [_LAYER.fullmatch(str(name)) for name in parts]
    if not all(cuts):
        return None
    begins = [0, *(int(cut[1]) for cut in cuts if cut), layers]
    return [end - begin for begin, end in pairwise(begins)]


def read_parts(facts: Facts, flag: Flag) -> None:
    """Where stages begin (``layers.4,layers.8``), or the modules of each; empty says nothing."""
    if flag.value:
        facts.say(PARTS, flag.value, flag)
    else:
        facts.effectless(flag, "off")
