"""Features that no scenario has yet and no importer may replace: files with them are refused.

``Facts.refuse(flag, LINEAR_ATTENTION)`` refuses a file that asks for one; ``refuses_setting`` makes a meaning
for tables.
"""

from __future__ import annotations

from simcluster.deferred_dataclass import dataclass


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
SPARSE_ATTENTION = UnsupportedFeature(
    "sparse attention without latent attention (NSA, MoBA)", "attention to every token"
)
ADAPTERS = UnsupportedFeature(
    "adapters other than LoRA's (DoRA, QLoRA, prompt and prefix tuning)", "training of all weights"
)
EVALUATION = UnsupportedFeature("an evaluation (forward passes over a data set)", "training")
PREFERENCES = UnsupportedFeature(
    "training with preferences or rewards (DPO, PPO, GRPO, KTO, reward models)", "plain training on text"
)
QUANTISED_WEIGHTS = UnsupportedFeature(
    "frozen weights in 4 or 8 bits (QLoRA, bitsandbytes)", "adapters beside weights in 16 bits"
)
