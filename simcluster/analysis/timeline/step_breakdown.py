"""The breakdown of a step into compute and waits by cause; the rules for waits are those of ``idle_gaps``."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from simcluster.analysis.timeline.idle_gaps import GroupGaps
from simcluster.analysis.timeline.instruction_spans import NameIndex
from simcluster.deferred_dataclass import dataclass
from simcluster.engine import Timing
from simcluster.program import InstructionKind, Program

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class StepBreakdown:
    """Nanoseconds of the run by class: kernels with their launches, these alone, waits by cause, and what
    kernels took longer beside communication.
    """

    busy: Ints
    host: Ints
    lost: Mapping[str, Ints]
    slowed: Ints


def break_down(program: Program, timing: Timing, num_stages: int) -> StepBreakdown:
    """The breakdown of every class; its parts fill the run without remainder.

    ``num_stages`` are the stages of the pipeline.
    """
    count = len(timing.classes)
    busy, host, spent = (np.zeros(count, dtype=np.int64) for _ in range(3))
    causes = NameIndex()
    lost: defaultdict[int, Ints] = defaultdict(lambda: np.zeros(count, dtype=np.int64))
    for group in timing.groups:
        part, indices = group.group.part, np.array(group.group.indices)
        spent[indices] = group.ends[part.kernels].sum(axis=0) - group.starts[part.kernels].sum(axis=0)
        for code, executions in part.by_code().items():
            instructions = program.codes[code].instructions
            computes = np.array([i.action is InstructionKind.COMPUTE for i in instructions], dtype=bool)
            priced = group.group.codes[code]
            busy[indices] += len(executions) * priced.duration[computes].sum(axis=0)
            host[indices] += len(executions) * priced.host[computes].sum(axis=0)
        gaps = GroupGaps(group, range(len(indices)), program.stage_axis, causes)
        for piece in gaps.pieces(timing.end, num_stages):
            waited = piece.end - piece.start
            if waited.ndim == 2:
                lost[piece.cause][indices] += waited.sum(axis=0)
            else:
                np.add.at(lost[piece.cause], indices[piece.column], waited)
    by_name = {name: lost[number] for name, number in sorted(causes.names.items()) if lost[number].any()}
    return StepBreakdown(busy, host, by_name, spent - busy)
