"""A Program on arrays: replayed in a trace's order on every simulated device, compared with one device."""

from simcluster.values.buffers import RankArrays, RankState
from simcluster.values.comparison import (
    TensorComparison,
    ValueTolerance,
    compare_generated,
    compare_training,
)
from simcluster.values.exchange import local_part
from simcluster.values.generation_oracle import GenerationOracle
from simcluster.values.oracle import Oracle
from simcluster.values.recorded_updates import RecordedUpdates, oracles_of_workers
from simcluster.values.replay import Replay
from simcluster.values.sample_stream import SampleStream
from simcluster.values.source import SeededData

__all__ = [
    "GenerationOracle",
    "Oracle",
    "RankArrays",
    "RankState",
    "RecordedUpdates",
    "Replay",
    "SampleStream",
    "SeededData",
    "TensorComparison",
    "ValueTolerance",
    "compare_generated",
    "compare_training",
    "local_part",
    "oracles_of_workers",
]
