"""DualPipeV (DeepSeek, github.com/deepseek-ai/DualPipe): overlapped forwards and backwards, V-shaped."""

from __future__ import annotations

from typing import ClassVar

from simcluster.plan.pipeline import Action, Schedule, StageActions, VirtualStages


class DualPipeV(Schedule):
    """Bubble (p - 1)(f&b + b - 3 w) of a chunk's overlapped pair f&b, backward b and weight half w; 2 p + 1
    chunks alive.

    The order is that of ``DualPipeV.step``. It is made for at least 2 p micro-batches; with fewer, those that
    are not there are left out.
    """

    kind: ClassVar[str] = "dualpipe_v"

    def chain(self, num_stages: int) -> VirtualStages:
        """To the last stage and back: the loss is on the first."""
        return VirtualStages.v_shape(num_stages)

    def stage(self, stage: int, num_stages: int, num_micro_batches: int) -> tuple[Action, ...]:
        """The eight steps of the original, named as there."""
        line = StageActions()
        behind, count = num_stages - stage - 1, max(2 * num_stages, num_micro_batches)
        line.do("F0 " * 2 * behind)
        line.do("F0 F1 " * (stage + 1))
        line.do("I1 W F1 " * behind)
        for turn in range(count - 2 * num_stages + stage + 1):
            # The last stage does not overlap its first pair, to have the backward earlier.
            line.do("F0 B1" if turn == 0 and not behind else "F0&B1")
            line.do("F1&B0")
        line.do("B1 F1&B0 " * behind)
        split = (stage + 1) // 2
        for turn in range(stage + 1):
            line.do("I1" if turn > split or (turn == split and stage % 2) else "B1")
            line.do("I0" if turn >= split else "B0")
        line.do("W I0 " * behind)
        line.do("W " * (stage + 1))
        return line.without(num_micro_batches)
