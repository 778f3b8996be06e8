"""What trades memory for time: optimizer sharding, recomputation, offload."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from simcluster.search.space.plan_choice import ALL_LAYERS, NOTHING, SELECTIVE, PlanChoice
from simcluster.search.space.search_key import SpaceSetting, WordKey


class OptimizerShardingKey(WordKey):
    """Stages of ZeRO."""

    kind = "optimizer_sharding"
    title = "ZeRO 0 to 3, and what the scenario says"
    order = 7
    is_usual = True

    @property
    def words(self) -> dict[str, str]:
        """The stages by number."""
        return {str(stage): f'{{"zero": {stage}}}' for stage in range(4)} | {"fsdp": "fsdp"}

    def choices(
        self, setting: SpaceSetting, choice: PlanChoice, values: Sequence[str]
    ) -> Iterator[PlanChoice]:
        """The stages; one data-parallel way has nothing to share."""
        if setting.batch_ways(choice) == 1:
            yield replace(choice, optimizer_sharding=self.words["0"])
            return
        for text in self.texts(values, ("0", "1", "2", "3"), choice.optimizer_sharding):
            yield replace(choice, optimizer_sharding=text)


class RecomputeKey(WordKey):
    """What the backward computes again."""

    kind = "recompute"
    title = "nothing, the cores of attention (models that have them), every layer, what the scenario says"
    order = 8
    is_usual = True

    @property
    def words(self) -> dict[str, str]:
        """none, selective and all, as Megatron calls them."""
        return {
            "none": NOTHING,
            "selective": SELECTIVE,
            "all": ALL_LAYERS,
        }

    def choices(
        self, setting: SpaceSetting, choice: PlanChoice, values: Sequence[str]
    ) -> Iterator[PlanChoice]:
        """The words; without attention there is nothing selective."""
        attends = "heads" in setting.scenario.model.dimensions
        usual = [word for word in self.words if attends or word != "selective"]
        for text in self.texts(values, usual, choice.recompute):
            yield replace(choice, recompute=text)


class OffloadKey(WordKey):
    """What lies on hosts instead of on devices."""

    kind = "offload"
    title = "nothing, or optimizer states on the host, on hosts with PCIe"
    order = 9

    @property
    def words(self) -> dict[str, str]:
        """none, and what goes to the host."""
        return {
            "none": "{}",
            "optimizer_states": '{"optimizer_states": "host"}',
            "activations": '{"activations": "host"}',
        }

    def choices(
        self, setting: SpaceSetting, choice: PlanChoice, values: Sequence[str]
    ) -> Iterator[PlanChoice]:
        """The words, if every host can."""
        able = all(host.pcie is not None for host in setting.scenario.cluster.kinds)
        usual = ("none", "optimizer_states") if able else ("none",)
        for text in self.texts(values, usual, choice.offload):
            yield replace(choice, offload=text)
