"""Why a step takes its time and a plan its memory, and which changes would help most.

explanation = explain_scenario(Scenario.load("plan.yaml"))
print(explanation_text(explanation))
"""

from simcluster.explanation.explanation import Explanation, explain_scenario
from simcluster.explanation.from_python import GivenExplanation, explain
from simcluster.explanation.report import explanation_document, explanation_text
from simcluster.tuning import Trial

__all__ = [
    "Explanation",
    "GivenExplanation",
    "Trial",
    "explain",
    "explain_scenario",
    "explanation_document",
    "explanation_text",
]
