"""Micro-batch interleaving: a micro-batch in several copies, so that one computes while another communicates.

MindSpore's multi-copy parallelism (``MicroBatchInterleaved``): the samples of a micro-batch are divided among
copies, which run the same kernels alternately. Here a copy is a smaller micro-batch, and every action of the
schedule overlaps with those of the other copies; gradients add up as for any micro-batches.
"""

from __future__ import annotations

from dataclasses import replace

from simcluster.errors import PlanError
from simcluster.layout import whole_axes
from simcluster.plan.pipeline import Action, Timetable
from simcluster.plan.spec import FrameworkSpec, ShardingChoice
from simcluster.plan.switches import LayerCollectives

PATH = "parallel.copies"


def interleaved_samples(micro_batch: int, copies: int) -> int:
    """Samples of one copy of a micro-batch; PlanError if it does not divide."""
    if micro_batch % copies:
        raise PlanError(
            f"a micro-batch of {micro_batch} does not divide into {copies} copies: "
            f"{micro_batch} / {copies} = {micro_batch / copies:g}",
            path=PATH,
            hint=f"use a training.micro_batch that is a multiple of {copies}",
        )
    return micro_batch // copies


def interleave_micro_batches(timetable: Timetable, copies: int) -> Timetable:
    """The timetable in which every action is done for all copies of its micro-batch, overlapped.

    Copy c of micro-batch i is number ``i * copies + c``: with two, F3 becomes F6&F7 and F3&B1 becomes
    F6&F7&B2&B3.
    """
    if copies == 1:
        return timetable
    return tuple(tuple(_abreast(action, copies) for action in actions) for actions in timetable)


def _abreast(action: Action, copies: int) -> Action:
    first, *others = (
        replace(half, micro_batch=half.micro_batch * copies + copy)
        for half in action.parts
        for copy in range(copies)
    )
    return first.overlapping(others)


def describe_interleaving(
    copies: int, micro_batch: int, framework: FrameworkSpec, sharding: ShardingChoice
) -> str:
    """A note on interleaved copies of so many samples each; empty without them.

    It warns of what is done for each copy where MindSpore, in whose graph both copies read one gathered
    weight and add to one gradient, does it once for all (from memory).
    """
    if copies == 1:
        return ""
    samples = f"{micro_batch} sample{'s' * (micro_batch > 1)}"
    note = f"micro-batches go in {copies} copies of {samples}, counted as micro-batches of their own"
    if framework.layer_collectives is LayerCollectives.BLOCKING:
        note += f"; with {framework.title} kernels wait for collectives of activations, so copies hide none"
    repeated = [
        what
        for what, often in (
            ("gradients reduced to shards", sharding.gradients),
            ("weights gathered", sharding.weights and sharding.regather),
        )
        if often
    ]
    if repeated:
        note += (
            f"; {' and '.join(repeated)} for every copy, where MindSpore does so once for all {copies}: "
            f"communication over {' and '.join(whole_axes(sharding.axes))} is up to {copies} times too much"
        )
    return note
