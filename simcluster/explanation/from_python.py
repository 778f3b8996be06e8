"""Explanations from Python: ``simcluster.explain``."""

from __future__ import annotations

from typing import Any

from simcluster.deferred_dataclass import dataclass
from simcluster.explanation.bottleneck import bottleneck_text
from simcluster.explanation.explanation import Explanation, explain_scenario
from simcluster.explanation.report import explanation_document, explanation_html, explanation_text
from simcluster.report import message_display
from simcluster.simulation import GivenScenario, scenario_of


@dataclass(frozen=True)
class GivenExplanation:
    """Why a step takes its time and a plan its memory; ``print`` shows it."""

    explanation: Explanation

    @property
    def bottleneck(self) -> str:
        """What the step is bound by, in a sentence."""
        return bottleneck_text(self.explanation.run.documents)

    @property
    def critical_path(self) -> dict[str, Any]:
        """What the step is made of, per stage, with slack; empty where the run has too many entries."""
        return dict(self.explanation.run.documents.get("critical_path") or {})

    @property
    def time_use(self) -> dict[str, Any]:
        """Operators, kernels and collectives with what they take."""
        return dict(self.explanation.run.documents["time_use"])

    @property
    def document(self) -> dict[str, Any]:
        """All that ``simcluster explain --json`` prints, SI units."""
        return explanation_document(self.explanation)

    def __repr__(self) -> str:
        return f"GivenExplanation: {self.explanation.run.documents['plan']['name']}: {self.bottleneck}"

    def __str__(self) -> str:
        return explanation_text(self.explanation)

    def _repr_html_(self) -> str:
        return explanation_html(self.explanation)


def explain(scenario: GivenScenario, *, thorough: bool = False) -> GivenExplanation:
    """Why a step takes as long as it does, and which changes would help most, each tried by simulation.

    Of a plan that does not fit, the changes that would make it fit. It takes some seconds; ``thorough``
    leaves nothing out. Raises ScenarioError for a wrong file and PlanError for an impossible plan.
    """
    which = scenario_of(scenario)
    with message_display(which.name) as tell:
        return GivenExplanation(explain_scenario(which, tell, thorough=thorough))
