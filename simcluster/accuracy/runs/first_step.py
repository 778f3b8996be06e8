"""What every stage holds at most in the first step, in whose forward and backward there are no moments."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from simcluster.trace import Run

_OUTSIDE = ("runtime", "communicators")
"""Buffers that no framework counts as its tensors."""
_STATES, _MASTER, _END = "optimizer_states", ".master", "end"


def first_step_peaks(run: Run) -> Iterator[float]:
    """The peak bytes of tensors in the first step, stage by stage: the optimizer's moments do not exist
    before the first update, which allocates them.
    """
    memory, spans = run.memory, run.spans
    names, actions = memory.names["buffer"], spans.names["action"]
    outside = [number for number, name in enumerate(names) if name in _OUTSIDE]
    masters = [number for number, name in enumerate(names) if name.endswith(_MASTER)]
    end = actions.index(_END)
    for stage in run.documents["memory"]:
        rows = (memory["class"] == stage["class"]) & ~np.isin(memory["buffer"], outside)
        times, changes = memory["time"][rows], memory["bytes"][rows]
        states = memory["category"][rows] == memory.names["category"].index(_STATES)
        moments = changes[states & ~np.isin(memory["buffer"][rows], masters)].sum()
        begins = spans["start"][(spans["class"] == stage["class"]) & (spans["action"] == end)].min()
        levels = np.cumsum(changes)
        before = levels[times < begins].max(initial=0) - moments
        yield float(max(before, levels[times >= begins].max(initial=levels[-1])))
