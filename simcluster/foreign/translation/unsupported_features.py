"""What no scenario can say yet and no importer may replace by something else: it is refused, in these words.

``Facts.refuse(flag, LINEAR_ATTENTION)`` refuses it where a file asks for it; ``meaning.refused`` makes a
meaning for tables.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class UnsupportedFeature:
    """A kind of model or program that scenarios lack; ``instead`` is what would be simulated without it."""

    feature: str
    instead: str

    @property
    def message(self) -> str:
        """What is wrong with a file that asks for it."""
        return f"no scenario can say {self.feature} yet; times and memory of {self.instead} would be wrong"

    @property
    def hint(self) -> str:
        """The way to the result for what would be simulated in its place."""
        return f"for {self.instead} all the same, import a copy of the file without {self.feature}"


LINEAR_ATTENTION = UnsupportedFeature(
    "linear attention (Gated DeltaNet, lightning attention)", "softmax attention in every layer"
)
STATE_SPACE = UnsupportedFeature("state-space layers (Mamba)", "attention in every layer")
RECURRENT = UnsupportedFeature("recurrent layers (Griffin, RWKV)", "attention in every layer")
SPARSE_ATTENTION = UnsupportedFeature("sparse attention (DSA, NSA, MoBA)", "attention to every token")
ADAPTERS = UnsupportedFeature("adapters (LoRA) beside frozen weights", "training of all weights")
EVALUATION = UnsupportedFeature("an evaluation (forward passes over a data set)", "training")
