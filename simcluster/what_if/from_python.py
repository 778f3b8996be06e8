"""What-if questions from Python: ``simcluster.whatif``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from simcluster import units
from simcluster.deferred_dataclass import dataclass
from simcluster.report import message_display
from simcluster.simulation import GivenScenario, build_scenario, scenario_of
from simcluster.what_if.figure_effects import BY, FigureEffect, WhatIf, what_if
from simcluster.what_if.report import what_if_document, what_if_html, what_if_page, what_if_text


@dataclass(frozen=True)
class WhatIfAnswer:
    """What better and worse figures of the cluster make of a step: printed a table, in notebooks drawn."""

    answer: WhatIf

    @property
    def effects(self) -> tuple[FigureEffect, ...]:
        """What each kind of figures changes, the largest swing first."""
        return self.answer.effects

    @property
    def document(self) -> dict[str, Any]:
        """All that ``simcluster whatif --json`` prints, SI units."""
        return what_if_document(self.answer)

    def to_html(self, path: str | Path) -> None:
        """Writes the page that ``simcluster whatif --html`` does."""
        Path(path).write_text(what_if_page(self.answer), encoding="utf-8")

    def __repr__(self) -> str:
        step = f"{self.answer.what} of {units.seconds(self.answer.present)}"
        return f"WhatIfAnswer: {self.answer.name}, {step}, {len(self.effects)} kinds of figures"

    def __str__(self) -> str:
        return what_if_text(self.answer)

    def _repr_html_(self) -> str:
        return what_if_html(self.answer)


def whatif(scenario: GivenScenario, *, by: float = BY) -> WhatIfAnswer:
    """What 10 % more of each figure of the cluster would buy, and 10 % less would cost.

    Compute rate, memory bandwidth, each level of links, latency, launch overhead: one at a time, the plan
    stays. ``by`` is the share, above zero. Raises ScenarioError for a wrong file and PlanError for an
    impossible plan.
    """
    which = scenario_of(scenario)
    with message_display(which.name) as tell:
        return WhatIfAnswer(what_if(build_scenario(which), by, lambda figure: tell(f"trying other {figure}")))
