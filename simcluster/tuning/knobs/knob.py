"""A knob: one kind of change of a plan, from the smallest to the largest, and when a run asks for it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Any, ClassVar

from simcluster.scenario import Scenario
from simcluster.tuning.knobs.present_run import PresentRun

Changes = tuple[tuple[str, str], ...]
"""(key path, YAML text) pairs, as ``--set`` takes them."""


class KnobPurpose(StrEnum):
    """What a knob is turned for."""

    MEMORY = "memory"
    SPEED = "speed"


class Knob(ABC):
    """One kind of change of a scenario; those of this folder are tried in the order of its modules.

    ``explain`` tries the knobs that save memory where a plan does not fit, ``advise`` all those that have a
    reason to be turned.
    """

    kind: ClassVar[str]
    """What it is called in explanations."""
    serves: ClassVar[frozenset[KnobPurpose]] = frozenset({KnobPurpose.MEMORY})
    """What it is turned for; to save memory unless said otherwise."""
    about: ClassVar[str] = ""
    """The loss of time that it is about, as ``PresentRun.lost`` knows it; empty: none in particular."""
    saves: ClassVar[tuple[str, ...]] = ()
    """The categories of memory of which it leaves less on a device."""
    source: ClassVar[str] = ""
    """Who gives this advice, and where."""
    uneven: ClassVar[bool] = False
    """Whether it may save less when turned further."""
    of_training: ClassVar[bool] = False
    """Whether only training has what it changes."""

    @abstractmethod
    def turns(self, scenario: Scenario, plan: Mapping[str, Any]) -> Iterator[Changes]:
        """What the plan leaves to change, the smallest change first; ``plan`` is its document."""

    def reason(self, present: PresentRun) -> str:
        """Why a run asks for it, in one sentence with its figures; empty where it does not.

        Unless a knob says otherwise: memory is lacking, and it saves some.
        """
        return present.lack_of_memory(self.saves) if KnobPurpose.MEMORY in self.serves else ""
