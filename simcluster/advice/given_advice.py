"""What advice from Python gives."""

from __future__ import annotations

from typing import Any

from simcluster import units
from simcluster.advice.advice import Advice
from simcluster.advice.report import advice_document, advice_html, advice_text
from simcluster.deferred_dataclass import dataclass
from simcluster.tuning import Changes, Trial


@dataclass(frozen=True)
class GivenAdvice:
    """What to change of a plan, round by round; ``print`` shows what was tried and why."""

    rounds: tuple[Advice, ...]
    """The first is about the plan itself, the next about that with what gains."""

    @property
    def changes(self) -> Changes:
        """What to set for all that gains, as key paths and YAML texts; () if nothing does."""
        return self.rounds[0].changes

    @property
    def final(self) -> Trial:
        """The plan with these changes: seconds of a step, and its memory."""
        return self.rounds[0].final

    @property
    def document(self) -> dict[str, Any]:
        """All that ``simcluster advise --json`` prints, SI units."""
        return advice_document(self.rounds[0])

    def __repr__(self) -> str:
        count = len(self.changes)
        changes = f"{count:,} change{'s' * (count != 1)}"
        return f"GivenAdvice: {self.rounds[0].name}, {changes}: {units.seconds(self.final.step)} a step"

    def __str__(self) -> str:
        """All of it, to read."""
        return advice_text(self.rounds[0])

    def _repr_html_(self) -> str:
        return advice_html(self.rounds[0])
