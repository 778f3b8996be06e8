"""What the texts that a plan writes into a scenario mean, each read once."""

from __future__ import annotations

from dataclasses import field
from functools import cached_property

from simcluster.deferred_dataclass import dataclass
from simcluster.plan import BALANCED_ROUTING, Numerics, ShardingChoice, explicit_sharding
from simcluster.scenario import Scenario
from simcluster.search.bounds.few_layers import FewLayers

WHOLE = "{zero: 0}"
"""Nothing is sharded over data-parallel ranks: what a rank holds then is known to be divided by them."""

SCATTERED = "{zero: 2}"
"""Gradients are sharded."""


@dataclass(frozen=True, slots=True)
class WrittenSharding:
    """What is sharded, and whether the recipe says so, or MindSpore's levels, over all ranks of a stage."""

    choice: ShardingChoice
    by_recipe: bool
    of_mindspore: bool


@dataclass
class PlanTexts:
    """Texts of plans of one scenario."""

    scenario: Scenario
    _shardings: dict[str, WrittenSharding] = field(default_factory=dict)
    _recomputed: dict[str, str] = field(default_factory=dict)
    _formats: dict[str, Numerics] = field(default_factory=dict)

    def sharding(self, text: str) -> WrittenSharding:
        """What ``parallel.optimizer_sharding`` says."""
        if text not in self._shardings:
            written = self.scenario.changed((("parallel.optimizer_sharding", text),)).spec.parallel
            self._shardings[text] = WrittenSharding(
                explicit_sharding(written.optimizer_sharding, ()),
                written.optimizer_sharding is None,
                getattr(written.optimizer_sharding, "mindspore", None) is not None,
            )
        return self._shardings[text]

    def work_alike(self, text: str) -> str:
        """A sharding with which kernels of a micro-batch do the same as with ``text``, the same one for many.

        Sharded gradients are added up in shards, which is less work; where weights are sharded, the profile
        may cast them elsewhere.
        """
        sharding = self.sharding(text)
        if sharding.by_recipe:
            return text
        plain = SCATTERED if sharding.choice.gradients else WHOLE
        return plain if self.formats(text) == self.formats(plain) else text

    def recomputed(self, text: str) -> str:
        """What a small plan recomputes: nothing, where that depends on stages, which is the least work."""
        if text not in self._recomputed:
            layers = self.scenario.changed((("parallel.recompute", text),)).spec.parallel.recompute.layers
            named = isinstance(layers, tuple) and all(isinstance(name, str) for name in layers)
            self._recomputed[text] = text if layers in ("none", "all") or named else "{}"
        return self._recomputed[text]

    @cached_property
    def layers(self) -> FewLayers:
        """The model with fewer layers, if nothing is said of single ones."""
        spec = self.scenario.spec
        assert spec.training is not None, "spaces are of training"
        parallel = spec.parallel
        named = isinstance(parallel.recompute.layers, tuple)
        said = (parallel.strategies, parallel.shard, parallel.host, parallel.fusion.ids, named, self._tuned)
        return FewLayers.of(self.scenario.model, spec.training.seq_len, equal=not any(said))

    @property
    def _tuned(self) -> bool:
        """Whether single layers are frozen, or have adapters."""
        training = self.scenario.spec.training
        assert training is not None, "spaces are of training"
        targets = training.lora.targets if training.lora else ()
        return any("layers." in pattern for pattern in (*(training.frozen or ()), *targets))

    @cached_property
    def is_routed(self) -> bool:
        """Whether experts get unequally many tokens, and so ranks different work."""
        training = self.scenario.spec.training
        assert training is not None, "spaces are of training"
        return training.routing.build() != BALANCED_ROUTING

    def formats(self, text: str) -> Numerics:
        """The number formats with a sharding."""
        if text not in self._formats:
            sharding = self.sharding(text).choice
            spec = self.scenario.spec
            assert spec.training is not None, "spaces are of training"
            self._formats[text] = Numerics.of(spec.training.formats, self.scenario.framework, sharding)
        return self._formats[text]
