"""What to change of a plan: tips that its run gives a reason for, each tried, and those that gain together.

advice = advise_scenario(Scenario.load("plan.yaml"), InlineExecutor())
print(advice_text(advice))
"""

from simcluster.advise.advice import Advice, Tip, advise_scenario
from simcluster.advise.report import advice_document, advice_text

__all__ = ["Advice", "Tip", "advice_document", "advice_text", "advise_scenario"]
