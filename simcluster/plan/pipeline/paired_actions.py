"""Forwards beside backwards: what one of them sends to experts travels while the other computes."""

from __future__ import annotations

from collections.abc import Sequence

from simcluster.plan.pipeline.action import BACKWARD, FORWARD, Action


def in_pairs(actions: Sequence[Action]) -> tuple[Action, ...]:
    """The actions with every backward that a forward follows beside that forward: B0 F1 becomes F1&B0."""
    paired: list[Action] = []
    for action in actions:
        before = paired[-1] if paired else None
        if (
            before is not None
            and (before.kind, action.kind) == (BACKWARD, FORWARD)
            and not before.overlapped_with
        ):
            paired[-1] = action.overlapping([before])
        else:
            paired.append(action)
    return tuple(paired)
