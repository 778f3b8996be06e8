"""Zero bubble H1 (arXiv 2401.10241): 1F1B whose weight gradients wait for what would be a bubble."""

from __future__ import annotations

from typing import ClassVar

from simcluster.deferred_dataclass import dataclass
from simcluster.plan.pipeline import Action, Schedule, zero_bubble_actions


@dataclass(frozen=True)
class ZeroBubbleH1(Schedule):
    """Bubble (p - 1)(f + i - w) of a forward f and the halves i and w of a backward; p micro-batches alive.

    As in 1F1B, but stage s does weight gradients s micro-batches late, so that the gradients that stages
    before it wait for come first.

    With ``kept_for_weights``, the share of a forward's activations that stays for its weight gradients, these
    wait as long as the memory of p forwards leaves room, as with schedules that the paper's search finds.
    """

    kind: ClassVar[str] = "zb_h1"

    kept_for_weights: float | None = None

    def stage(self, stage: int, num_stages: int, num_micro_batches: int) -> tuple[Action, ...]:
        """As many forwards ahead as stages behind it, weight gradients as late as stages before it."""
        return zero_bubble_actions(
            num_micro_batches, num_stages - stage - 1, stage, num_stages, self.kept_for_weights
        )
