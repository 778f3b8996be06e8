"""A knob: one kind of change that saves memory, from the smallest to the largest."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from simcluster.scenario import Scenario

Changes = tuple[tuple[str, str], ...]
"""(key path, YAML text) pairs, as ``--set`` takes them."""


class Knob(ABC):
    """One kind of change of a scenario; those of this folder are tried in the order of its modules."""

    kind: ClassVar[str]
    """What it is called in explanations."""
    uneven: ClassVar[bool] = False
    """Whether it may save less when turned further."""
    of_training: ClassVar[bool] = False
    """Whether only training has what it changes."""

    @abstractmethod
    def turns(self, scenario: Scenario, plan: Mapping[str, Any]) -> Iterator[Changes]:
        """What the plan leaves to change, the smallest change first; ``plan`` is its document."""
