"""A Program on arrays: replayed in a trace's order on every simulated device, compared with one device."""

from simcluster.values.comparison import Comparison, Tolerance, compare, compare_generated
from simcluster.values.generation_oracle import GenerationOracle
from simcluster.values.oracle import Oracle, StepValues
from simcluster.values.replay import Replay
from simcluster.values.source import Source

__all__ = [
    "Comparison",
    "GenerationOracle",
    "Oracle",
    "Replay",
    "Source",
    "StepValues",
    "Tolerance",
    "compare",
    "compare_generated",
]
