"""What to change of a plan: tips that its run gives a reason for, each tried, and those that gain together.

advice = advise_scenario(Scenario.load("plan.yaml"), InlineExecutor())
print(advice_text(advice))
"""

from simcluster.advice.advice import Advice, Tip, advise_scenario, changes_to_try
from simcluster.advice.combination import EQUAL_TIME, gains, rank
from simcluster.advice.from_python import advise
from simcluster.advice.given_advice import GivenAdvice
from simcluster.advice.report import advice_document, advice_text

__all__ = [
    "EQUAL_TIME",
    "Advice",
    "GivenAdvice",
    "Tip",
    "advice_document",
    "advice_text",
    "advise",
    "advise_scenario",
    "changes_to_try",
    "gains",
    "rank",
]
