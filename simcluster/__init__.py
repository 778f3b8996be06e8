"""simcluster: a simulated multi-device cluster runtime.

    import simcluster

    result = simcluster.simulate("scenarios/quickstart.yaml")
    print(result)

Names are resolved when they are first used (PEP 562), so importing the package costs nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from simcluster._version import __version__

if TYPE_CHECKING:
    from simcluster.api import Result, graph, infer_predict_layout, load, shard, simulate, verify
    from simcluster.errors import PlanError, ScenarioError, SimclusterError, SimulationError, TraceError
    from simcluster.layout import MindSporeLayout
    from simcluster.plan import shard_rows
    from simcluster.scenario import Scenario
else:

    def __getattr__(name: str) -> object:
        """A public name, imported from where it lives."""
        if name not in _MODULES:
            raise AttributeError(f"module 'simcluster' has no attribute '{name}'")
        from importlib import import_module

        value = getattr(import_module(_MODULES[name]), name)
        globals()[name] = value
        return value


_MODULES = {
    "MindSporeLayout": "simcluster.layout",
    "PlanError": "simcluster.errors",
    "Result": "simcluster.api",
    "Scenario": "simcluster.scenario",
    "ScenarioError": "simcluster.errors",
    "SimclusterError": "simcluster.errors",
    "SimulationError": "simcluster.errors",
    "TraceError": "simcluster.errors",
    "graph": "simcluster.api",
    "infer_predict_layout": "simcluster.api",
    "load": "simcluster.api",
    "shard": "simcluster.api",
    "shard_rows": "simcluster.plan.data.distributed_sampler",
    "simulate": "simcluster.api",
    "verify": "simcluster.api",
}

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
    "graph",
    "infer_predict_layout",
    "load",
    "shard",
    "shard_rows",
    "simulate",
    "verify",
]


def __dir__() -> list[str]:
    return sorted(__all__)
