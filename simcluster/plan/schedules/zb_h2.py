"""Zero bubble H2 (arXiv 2401.10241): more forwards at the beginning, so that stages never wait in between."""

from __future__ import annotations

from typing import ClassVar

from simcluster.deferred_dataclass import dataclass
from simcluster.plan.pipeline import Action, Schedule, zero_bubble_actions


@dataclass(frozen=True)
class ZeroBubbleH2(Schedule):
    """No bubble but the fill, p - 1 forwards, if f = i = w; 2 p - 1 micro-batches alive.

    As H1, but stage s begins with 2 (p - s) - 1 forwards, as many as it takes until the first gradient is
    back, and does weight gradients 2 s micro-batches late.

    With ``kept_for_weights``, the share of a forward's activations that stays for its weight gradients, these
    wait as long as the memory of 2 p forwards leaves room, as with schedules that the paper's search finds.
    """

    kind: ClassVar[str] = "zb_h2"

    kept_for_weights: float | None = None

    def overlaps(self, num_stages: int) -> bool:
        """Neighbours have activations and gradients for each other at the same time."""
        return num_stages > 1

    def stage(self, stage: int, num_stages: int, num_micro_batches: int) -> tuple[Action, ...]:
        """Twice as many forwards ahead as stages behind it, weight gradients twice as late as with H1."""
        ahead = num_stages - stage - 1
        return zero_bubble_actions(
            num_micro_batches, 2 * ahead, 2 * stage, 2 * num_stages, self.kept_for_weights
        )
