"""Why a plan needs the memory that it needs, and which changes would make it fit.

found = explained(Scenario.load("plan.yaml"))
print(explanation_text(found))
"""

from simcluster.explain.explanation import Explanation, explain_scenario
from simcluster.explain.report import explanation_document, explanation_text
from simcluster.tuning import Trial

__all__ = ["Explanation", "Trial", "explain_scenario", "explanation_document", "explanation_text"]
