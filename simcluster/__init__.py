"""simcluster: a simulated multi-device cluster runtime.

    import simcluster

    result = simcluster.simulate("scenarios/quickstart.yaml")
    print(result)

``load`` reads a scenario. ``verify``, ``explain``, ``whatif``, ``advise``, ``compare``, ``sweep`` and
``check`` do what the commands of these names do, ``simulate`` is ``run``, ``find_plan`` is ``search``.
``collective`` and ``catalog`` need no scenario. ``simcluster guide jupyter`` has examples of all.

Names are resolved when they are first used (PEP 562), so importing the package costs nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from simcluster._version import __version__
from simcluster.lazy_exports import exported_lazily

if TYPE_CHECKING:
    from simcluster import search
    from simcluster.advice import advise
    from simcluster.api import graph, infer_predict_layout, load, shard, simulate, sweep, verify
    from simcluster.baseline import check
    from simcluster.comparison import compare
    from simcluster.errors import PlanError, ScenarioError, SimclusterError, SimulationError, TraceError
    from simcluster.explanation import explain
    from simcluster.layout import MindSporeLayout
    from simcluster.listings import catalog, collective
    from simcluster.plan import shard_rows
    from simcluster.result import Result
    from simcluster.scenario import Scenario
    from simcluster.search import find_plan
    from simcluster.what_if import whatif
else:
    __getattr__ = exported_lazily(
        __name__,
        {
            "advice": "advise",
            "api": "graph infer_predict_layout load shard simulate sweep verify",
            "baseline": "check",
            "comparison": "compare",
            "errors": "PlanError ScenarioError SimclusterError SimulationError TraceError",
            "explanation": "explain",
            "layout": "MindSporeLayout",
            "listings": "catalog collective",
            "plan.data.distributed_sampler": "shard_rows",
            "result": "Result",
            "scenario": "Scenario",
            "search": "find_plan",
            "what_if": "whatif",
        },
        packages=["search"],
    )

__all__ = [
    "MindSporeLayout",
    "PlanError",
    "Result",
    "Scenario",
    "ScenarioError",
    "SimclusterError",
    "SimulationError",
    "TraceError",
    "__version__",
    "advise",
    "catalog",
    "check",
    "collective",
    "compare",
    "explain",
    "find_plan",
    "graph",
    "infer_predict_layout",
    "load",
    "search",
    "shard",
    "shard_rows",
    "simulate",
    "sweep",
    "verify",
    "whatif",
]


def __dir__() -> list[str]:
    return sorted(__all__)
