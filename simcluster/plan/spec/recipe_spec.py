"""Recipe files: strategies for a family of models."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources.abc import Traversable
from typing import ClassVar

from simcluster.document import CatalogSection, Name
from simcluster.plan.spec.optimizer_sharding import Written as WrittenSharding
from simcluster.plan.spec.strategy_spec import StrategySpec
from simcluster.registry import data_files


class RecipeSpec(CatalogSection):
    """A recipe: strategies for a family of models, in the form in which scenarios write them."""

    noun: ClassVar[str] = "recipe"

    title: Name
    """What it does, in one line."""

    source: Name
    """Where the scheme is described."""

    strategies: tuple[StrategySpec, ...] = ()
    """Later entries win."""

    optimizer_sharding: WrittenSharding | None = None
    """What is sharded if the scenario does not say."""

    @classmethod
    def entries(cls) -> Mapping[str, Traversable]:
        """The shipped recipes."""
        return data_files("simcluster.plan.recipes")
