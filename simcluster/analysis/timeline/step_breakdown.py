"""The breakdown of a step into compute and waits by cause; the rules for waits are those of ``idle_gaps``."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simcluster.analysis.timeline.idle_gaps import IDLE, PIPELINE_WAIT, GroupGaps
from simcluster.deferred_dataclass import dataclass
from simcluster.engine import Timing
from simcluster.number_arrays import Ints
from simcluster.program import HOST, INPUT, OFFLOAD, InstructionKind, Program
from simcluster.trace import NameIndex

WAITS = {
    "pipeline_wait_s": PIPELINE_WAIT,
    "offload_wait_s": OFFLOAD,
    "input_wait_s": INPUT,
    "idle_s": IDLE,
}
"""What a summary calls waits that are not for communication, and their causes."""


PARTS = ("compute_s", "slowed_s", "host_s", *WAITS)
"""All parts of a step but communication."""


@dataclass(frozen=True)
class StepBreakdown:
    """The parts of a run by class, by the names that a summary has for them, and ``exposed`` communication by
    axis: nanoseconds, which together fill the run without remainder, or what is made ``of`` them.
    """

    parts: Mapping[str, Any]
    exposed: Mapping[str, Any]

    def of(self, figure: Callable[[NDArray[Any]], Any]) -> StepBreakdown:
        """A figure of each, such as a mean over classes."""
        columns = (self.parts, self.exposed)
        return StepBreakdown(*({name: figure(own) for name, own in column.items()} for column in columns))


def break_down(program: Program, timing: Timing, num_stages: int) -> StepBreakdown:
    """The breakdown of every class; ``num_stages`` are the stages of the pipeline.

    ``compute_s`` is what kernels take, ``host_s`` their launches and what they wait for the host,
    ``slowed_s`` what they took longer beside communication.
    """
    count = len(timing.classes)
    busy, host, spent = (np.zeros(count, dtype=np.int64) for _ in range(3))
    causes = NameIndex()
    lost: defaultdict[int, Ints] = defaultdict(lambda: np.zeros(count, dtype=np.int64))
    for group in timing.groups:
        part, indices = group.group.part, np.array(group.group.indices)
        for code, executions in part.by_code().items():
            instructions = program.codes[code].instructions
            computes = np.array([i.action is InstructionKind.COMPUTE for i in instructions], dtype=bool)
            priced = group.group.codes[code]
            busy[indices] += len(executions) * priced.duration[computes].sum(axis=0)
            host[indices] += len(executions) * priced.host[computes].sum(axis=0)
        spent[indices] = busy[indices]
        if group.slowed:
            entries = np.arange(part.kernels.start, part.kernels.stop)
            spent[indices] = (group.ends(entries) - group.ready(entries, slice(None))).sum(axis=0)
        gaps = GroupGaps(group, range(len(indices)), program.stage_axis, causes)
        for piece in gaps.pieces(timing.end, num_stages):
            different = np.unique(piece.cause).tolist()
            for cause in different:
                rows = np.flatnonzero(piece.cause == cause) if len(different) > 1 else slice(None)
                start, over = piece.start[rows], piece.end[rows]
                if over.ndim == 2:
                    lost[cause][indices] += over.sum(axis=0) - start.sum(axis=0)
                else:
                    np.add.at(lost[cause], indices[piece.column[rows]], over - start)
    waits = {name: lost[causes.number(cause)] for name, cause in WAITS.items()}
    kernels = {"compute_s": busy - host, "slowed_s": spent - busy, "host_s": host + lost[causes.number(HOST)]}
    others = sorted(set(causes.names) - {HOST, *WAITS.values()})
    exposed = {axis: lost[causes.number(axis)] for axis in others if lost[causes.number(axis)].any()}
    return StepBreakdown(kernels | waits, exposed)
