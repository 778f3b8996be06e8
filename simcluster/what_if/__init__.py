"""What a faster link, a faster device or a shorter latency would buy: one figure of the cluster at a time.

answer = what_if(build_scenario(Scenario.load("plan.yaml")))
print(what_if_text(answer))
"""

from simcluster.what_if.figure_effects import (
    BY,
    FigureEffect,
    WhatIf,
    better_steps,
    figures_that_matter,
    what_if,
)
from simcluster.what_if.from_python import whatif
from simcluster.what_if.report import what_if_document, what_if_page, what_if_text

__all__ = [
    "BY",
    "FigureEffect",
    "WhatIf",
    "better_steps",
    "figures_that_matter",
    "what_if",
    "what_if_document",
    "what_if_page",
    "what_if_text",
    "whatif",
]
