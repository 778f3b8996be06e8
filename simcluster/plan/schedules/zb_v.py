"""ZB-V (arXiv 2401.10241, 2405.15362): two chunks folded back onto the stages, and split backwards."""

from __future__ import annotations

from typing import ClassVar

from simcluster.plan.pipeline import Action, Schedule, StageActions, VirtualStages


class ZeroBubbleV(Schedule):
    """No bubble but the fill, p - 1 forwards of a chunk, if f = i = w; 2 p chunks alive, as many as 1F1B has.

    The order is that of torch.distributed.pipelining (ScheduleZBVZeroBubble). It is made for at least 2 p - 1
    micro-batches; with fewer, those that are not there are left out.
    """

    kind: ClassVar[str] = "zb_v"

    def chain(self, num_stages: int) -> VirtualStages:
        """To the last stage and back: the loss is on the first."""
        return VirtualStages.v_shape(num_stages)

    def stage(self, stage: int, num_stages: int, num_micro_batches: int) -> tuple[Action, ...]:
        """Forwards of chunk 0, forwards of both, then both ways on both in turns, then what is left."""
        line = StageActions()
        done = line.done
        behind, count = num_stages - stage, max(2 * num_stages - 1, num_micro_batches)
        line.do("F0 " * (2 * behind - 1))
        line.do("F1 F0 " * stage)
        line.do("F1 I1 W1 " * behind)
        while done["F1"] < done["F0"] or done["F0"] < count:
            line.do("F0" if done["F0"] < count else "")
            line.do("I0 W0 F1 I1 W1")
        line.do("I0 I1 " * stage)
        line.do("I0 W0 " * behind)
        for chunk in (1, 0):
            line.do(f"W{chunk} " * (done[f"B{chunk}"] - done[f"W{chunk}"]))
        return line.without(num_micro_batches)
