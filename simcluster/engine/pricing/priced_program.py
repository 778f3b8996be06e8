"""What a class runs: priced codes, and their executions linked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from simcluster.engine.linking import ClassProgram, LinkedPart, TimedCode


@dataclass(frozen=True)
class PricedProgram:
    """Priced codes, and the part that runs them."""

    codes: Mapping[int, TimedCode]
    part: LinkedPart

    @cached_property
    def linked(self) -> ClassProgram:
        """All entries with their durations."""
        return self.part.timed(self.codes)
