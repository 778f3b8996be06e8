"""A key of a search space: one kind of choice, with the values that are tried for it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import ClassVar

from simcluster.deferred_dataclass import dataclass
from simcluster.errors import ScenarioError
from simcluster.model import Routed
from simcluster.plan import BATCH, roles_of
from simcluster.scenario import Scenario
from simcluster.search.space.plan_choice import DATA, PlanChoice


@dataclass(frozen=True)
class SpaceSetting:
    """What all plans of a space have in common."""

    scenario: Scenario

    @cached_property
    def num_devices(self) -> int:
        """Devices of the cluster."""
        return self.scenario.cluster.num_devices

    @cached_property
    def devices_per_host(self) -> int:
        """Devices of the smallest kind of host."""
        return min(host.num_devices for host in self.scenario.cluster.kinds)

    @property
    def global_batch(self) -> int:
        """Samples of a step."""
        assert self.scenario.spec.training is not None, "spaces are of training"
        return self.scenario.spec.training.global_batch

    @property
    def num_layers(self) -> int:
        """Layers of the model."""
        return self.scenario.model.num_layers

    @property
    def num_heads(self) -> int:
        """Attention heads; 1 for models without, in which nothing is known that tensor parallelism splits."""
        return self.scenario.model.dimensions.get("heads", 1)

    @property
    def num_experts(self) -> int:
        """Experts of a layer; 1 for models without."""
        model = self.scenario.model
        return (isinstance(model, Routed) and model.num_experts) or 1

    @cached_property
    def batch_axes(self) -> tuple[str, ...]:
        """The axes that split the batch."""
        return roles_of(self.scenario.spec.parallel)[BATCH]

    def batch_ways(self, choice: PlanChoice) -> int:
        """Data-parallel ways of a plan."""
        ways = 1
        for axis in self.batch_axes:
            ways *= choice.size(axis)
        return ways

    def micro_batches(self, choice: PlanChoice) -> tuple[int, ...]:
        """Micro-batches of a step by coordinate of the data axis, one number where all have equally many.

        () if they are no whole numbers.
        """
        size = choice.micro_batch * self.batch_ways(choice)
        if not choice.batch_shares:
            whole, left = divmod(self.global_batch, size)
            return () if left or not whole else (whole,)
        total, parts = self.global_batch * choice.size(DATA), sum(choice.batch_shares) * size
        counts = [divmod(total * share, parts) for share in choice.batch_shares]
        return () if any(left or not whole for whole, left in counts) else tuple(whole for whole, _ in counts)

    def samples_of_rank(self, choice: PlanChoice) -> int:
        """Samples that a data-parallel rank trains in a step; 0 if they do not divide."""
        whole, left = divmod(self.global_batch, self.batch_ways(choice))
        return 0 if left else whole


class SearchKey(ABC):
    """A key of ``--over``; one file of ``search/space/keys`` adds one."""

    kind: ClassVar[str]
    """What ``--over`` calls it."""
    title: ClassVar[str]
    """The values that are tried, for help and tables."""
    order: ClassVar[int]
    """Keys of a lower number choose first."""
    is_usual: ClassVar[bool] = False
    """Whether a search that names no keys has it."""

    @abstractmethod
    def choices(
        self, setting: SpaceSetting, choice: PlanChoice, values: Sequence[str]
    ) -> Iterator[PlanChoice]:
        """The plans that differ from a plan in this; ``values`` are those that the user wrote, or () for the
        usual ones.
        """

    def has(self, choice: PlanChoice, value: str) -> bool:
        """Whether a plan has a value that the user wrote."""
        return True

    def check(self, values: Sequence[str]) -> None:
        """Raises ScenarioError for values that the key does not have; by default it takes none."""
        if values:
            raise ScenarioError(f"--over {self.kind} takes no values", hint=f"it tries {self.title}")


class NumberKey(SearchKey):
    """A key whose values are whole numbers of at least 1: the size of an axis, or what plans call like it."""

    def has(self, choice: PlanChoice, value: str) -> bool:
        """Whether the plan has this number."""
        return int(value) == getattr(choice, self.kind, choice.size(self.kind))

    def check(self, values: Sequence[str]) -> None:
        """Raises ScenarioError for what is no such number."""
        for value in values:
            if not value.isdecimal() or int(value) < 1:
                raise ScenarioError(
                    f"--over {self.kind}={','.join(values)}: '{value}' is not a whole number of at least 1",
                    hint=f"such as --over {self.kind}=1,2,4",
                )


class WordKey(SearchKey):
    """A key whose values are words."""

    @property
    @abstractmethod
    def words(self) -> dict[str, str]:
        """Word -> the YAML text of the scenario."""

    def has(self, choice: PlanChoice, value: str) -> bool:
        """Whether the plan has what the word stands for."""
        return bool(getattr(choice, self.kind) == self.words[value])

    def check(self, values: Sequence[str]) -> None:
        """Raises ScenarioError for words that it does not know."""
        for value in values:
            if value not in self.words:
                raise ScenarioError(
                    f"--over {self.kind}={','.join(values)}: '{value}' is none of its values",
                    hint=f"use {', '.join(self.words)}",
                )

    def texts(self, values: Sequence[str], usual: Sequence[str], own: str) -> list[str]:
        """The YAML texts of the values that are written, else of the usual ones and the scenario's."""
        texts = [self.words[value] for value in values or usual]
        return texts if values or own in texts else [*texts, own]


def divisors(number: int) -> list[int]:
    """The divisors of a number, ascending."""
    small = [size for size in range(1, int(number**0.5) + 1) if number % size == 0]
    return sorted({*small, *(number // size for size in small)})
