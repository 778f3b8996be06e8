"""What depends on the numbers of pipeline stages and of data-parallel ranks, made to fit other ones."""

from __future__ import annotations

import json
import math
import string
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Any

from simcluster.errors import PlanError
from simcluster.plan import Layers, ScheduleSpec, default_layers, schedule_kinds
from simcluster.scenario import Scenario
from simcluster.tuning.knobs.knob import Changes

AUTO = "auto"
"""What a schedule says in place of layers listed by stage: they are divided anew."""
_PLAIN = {*string.ascii_letters, *string.digits, "_"}
_SEPARATE = ("stages", "p2p")
"""Keys that all kinds of schedules take."""


def mesh_changes(scenario: Scenario, plan: Mapping[str, Any], sizes: Mapping[str, int]) -> Changes:
    """The mesh with these axes, outermost first, and what else a plan on it needs.

    With another number of stages: the schedule with as many chunks and slices as they can have, layers
    divided anew where they are listed by stage, and as many recomputed as on the stage with most of them.
    With more data-parallel ranks: micro-batches that divide the samples of a rank. ``plan`` is the document
    of the present plan.
    """
    written = ", ".join(f"{name}: {size}" for name, size in sizes.items())
    changes = [("parallel.mesh", f"{{{written}}}")]
    present = scenario.spec.parallel.sizes
    stages, data = sizes.get("pipeline", 1), sizes.get("data", 1)
    if stages != present.get("pipeline", 1):
        micro_batches = int(plan["micro_batches"]) * present.get("data", 1) // data
        num_layers = sum(plan["layers_per_stage"])
        changes += _schedule_changes(scenario, num_layers, stages, micro_batches)
        changes += recompute_changes(scenario, num_layers, stages)
    if data > present.get("data", 1):
        ways = int(plan["data_parallel_ways"]) * data // present.get("data", 1)
        changes += _micro_batch_changes(scenario, plan, ways)
    return tuple(changes)


def schedule_text(scenario: Scenario, num_stages: int, **changed: Any) -> str:
    """``parallel.schedule`` with some keys changed, less what its kind does not take.

    Layers that are listed for another number of chunks on a stage are divided anew.
    """
    spec = scenario.spec.parallel.schedule
    entries = _entries(spec, **changed)
    listed = entries.get("stages", AUTO)
    if listed != AUTO:
        chunks = len(listed) if isinstance(listed[0], Sequence) else 1
        schedule = ScheduleSpec.model_validate(entries).build()
        if chunks != schedule.chain(num_stages).num_chunks:
            entries["stages"] = AUTO
    return _text(entries)


def _entries(spec: ScheduleSpec, **changed: Any) -> dict[str, Any]:
    given = {name: getattr(spec, name) for name in ScheduleSpec.model_fields if name in spec.model_fields_set}
    entries = {"kind": spec.kind, **given, **changed}
    taken = {field.name for field in fields(schedule_kinds()[entries["kind"]])}
    return {
        name: value
        for name in ScheduleSpec.model_fields
        if (value := entries.get(name)) is not None and (name == "kind" or name in _SEPARATE or name in taken)
    }


def _text(entries: Mapping[str, Any]) -> str:
    """Entries as YAML: a mapping, or the kind where that is all; words stand without quotes."""
    if [*entries] == ["kind"]:
        return str(entries["kind"])
    words = ", ".join(f"{name}: {_word(value)}" for name, value in entries.items())
    return f"{{{words}}}"


def _word(value: Any) -> str:
    """A value as YAML."""
    plain = isinstance(value, str) and set(value) <= _PLAIN
    return value if plain else json.dumps(value)


def _schedule_changes(
    scenario: Scenario, num_layers: int, stages: int, micro_batches: int
) -> Iterator[tuple[str, str]]:
    """The schedule for another number of stages; nothing where the present one fits it.

    Of the present kind with the most chunks into which layers divide, or, if they divide into none, with the
    most that have a layer each; else 1F1B, as with one stage. Nothing either where there are more stages than
    layers: that is impossible with any schedule.
    """
    spec = scenario.spec.parallel.schedule
    listed = {} if spec.stages == AUTO else {"stages": AUTO}
    if stages == 1:
        if _entries(spec) != {"kind": "1f1b"}:
            yield "parallel.schedule", "1f1b"
        return
    plain = {"kind": "1f1b", **listed, **({"p2p": spec.p2p} if spec.p2p else {})}
    for entries in (*_candidates(spec, num_layers, stages, listed), plain):
        if _is_possible(entries, num_layers, stages, micro_batches):
            if entries != _entries(spec):
                yield "parallel.schedule", _text(entries)
            return


def _candidates(
    spec: ScheduleSpec, num_layers: int, stages: int, listed: Mapping[str, str]
) -> Iterator[dict[str, Any]]:
    """The schedule with fewer and fewer chunks and slices."""
    schedule = spec.build()
    slices = range(schedule.num_slices, 1, -1) if spec.kind != "text" and schedule.num_slices > 1 else (None,)
    for chunks in _chunk_numbers(schedule, num_layers, stages):
        for number in slices:
            changed: dict[str, Any] = dict(listed)
            if chunks is not None and chunks != schedule.chunks:  # type: ignore[attr-defined]
                changed["chunks"] = chunks
            if number is not None and number != schedule.num_slices:
                changed["slices"] = number
            yield _entries(spec, **changed)


def _chunk_numbers(schedule: Any, num_layers: int, stages: int) -> list[int | None]:
    """Numbers of chunks to try, the present one and fewer; None where a schedule has no choice."""
    if "chunks" not in schedule.__match_args__:
        return [None]
    fewer: list[int | None] = [*range(schedule.chunks, 1, -1)]
    return sorted(fewer, key=lambda chunks: num_layers % (stages * (chunks or 1)) != 0)


def _is_possible(entries: Mapping[str, Any], num_layers: int, stages: int, micro_batches: int) -> bool:
    """Whether so many layers and micro-batches have a place in a schedule of so many stages."""
    schedule = ScheduleSpec.model_validate(dict(entries)).build()
    try:
        schedule.stage(0, stages, micro_batches)
        chain = schedule.chain(stages)
        default_layers(num_layers, len(chain), chain.num_chunks)
    except PlanError:
        return False
    return True


def recompute_changes(
    scenario: Scenario, num_layers: int, stages: int, *, chunks_alone: bool = False
) -> Iterator[tuple[str, str]]:
    """Recomputed layers that are counted by stage, for another number of stages or of chunks on each.

    Of a list the most of any stage, in proportion, on each of them; all where a stage has no more.
    ``chunks_alone``: only the number of chunks is another one: a count for every stage stays as it is.
    """
    spec = scenario.spec.parallel.recompute
    counts = _recomputed_by_stage(spec.layers)
    listed = isinstance(spec.layers, tuple)
    by_chunk = isinstance(spec.layers, tuple) and isinstance(spec.layers[0], tuple)
    if not counts or (chunks_alone and not by_chunk):
        return
    most = math.ceil(max(counts) * len(counts) / stages) if listed else counts[0]
    largest = math.ceil(num_layers / stages)
    if listed or most > largest:
        layers = "none" if most == 0 else "all" if most >= largest else most
        entries = spec.model_dump(mode="json", exclude_unset=True) | {"layers": layers}
        yield "parallel.recompute", _text(entries)


def _recomputed_by_stage(layers: Layers) -> list[int]:
    """Recomputed layers of every stage, of all its chunks together; one number if it is that of each."""
    if isinstance(layers, int):
        return [layers]
    if isinstance(layers, str) or isinstance(layers[0], str):
        return []
    rows = [row for row in layers if isinstance(row, tuple)]
    if rows:
        return [sum(counts) for counts in zip(*rows, strict=True)]
    return [count for count in layers if isinstance(count, int)]


def _micro_batch_changes(scenario: Scenario, plan: Mapping[str, Any], ways: int) -> Iterator[tuple[str, str]]:
    """Smaller micro-batches where the present ones do not divide the samples of a rank, and fewer copies."""
    training, copies = scenario.spec.training, scenario.spec.parallel.copies
    samples, left = divmod(int(plan["global_batch"]), ways)
    size = int(plan["micro_batch"]) * copies
    if training is None or left or samples % size == 0:
        return
    common = math.gcd(samples, size)
    if common % copies:
        yield "parallel.copies", "1"
    yield "training.micro_batch", str(common)
