"""Hand-written programs for tests, and the arrays that their ranks make."""

from __future__ import annotations

from collections import defaultdict
from copy import deepcopy
from typing import Any
from unittest.mock import patch

import numpy as np

from simcluster.engine import Workload, run
from simcluster.program import partition_ranks
from simcluster.scenario import Scenario
from simcluster.simulation import build_scenario
from simcluster.simulation.recording import record_run
from simcluster.values import Replay, SeededData
from simcluster.values.recorded_values import RecordedValues

IN, HIDDEN, CLASSES, BATCH = 12, 8, 4, 16
UP = {"op": "matmul", "left": ["batch", "in"], "rights": [["in", "out"]], "results": [["batch", "out"]]}
LABELS = ["batch", "out"]


def up(name: str, x: str, weight: str) -> dict[str, Any]:
    """A product of a tensor and a weight."""
    return {**UP, "name": name, "inputs": [x, weight]}


def act(name: str, x: str) -> dict[str, Any]:
    """A nonlinearity."""
    return {"op": "gelu", "name": name, "inputs": [x], "labels": LABELS}


def loss(name: str, x: str, scale: Any) -> dict[str, Any]:
    """Cross entropy with the labels of the batch."""
    return {"op": "cross_entropy", "name": name, "inputs": [x, "labels"], "scale": scale, "labels": LABELS}


def times(name: str, x: str, factor: float) -> dict[str, Any]:
    """A number times another."""
    told = {"function": "mul", "operands": [[]], "result": [], "constants": [[1, factor]]}
    return {"op": "elementwise", "name": name, "inputs": [x], **told}


MLP: dict[str, Any] = {
    "feeds": {"x": {"shape": ["batch", IN]}, "labels": {"shape": ["batch"], "below": CLASSES}},
    "parameters": {"w1": {"shape": [IN, HIDDEN]}, "w2": {"shape": [HIDDEN, CLASSES]}},
    "operators": [
        up("fc1", "x", "w1"),
        act("act", "fc1"),
        up("fc2", "act", "w2"),
        loss("loss", "fc2", "mean"),
    ],
    "loss": "loss",
}


def written(
    mesh: dict[str, int],
    program: dict[str, Any] | None,
    *,
    graph: dict[str, Any] | None = None,
    batch: int = BATCH,
    micro_batches: int = 1,
    training: dict[str, Any] | None = None,
    host: str = "cpu-server",
    **parallel: Any,
) -> Scenario:
    """A scenario of a small model and a program for it; without one in mode data."""
    ranks = int(np.prod(list(mesh.values())))
    ways = mesh.get("data", 1)
    mode = {"mode": "manual", "program": program} if program else {"mode": "data"}
    return Scenario.of(
        deepcopy(
            {
                "simcluster": 1,
                "name": "written",
                "cluster": {"host": {"use": host, "devices": ranks, "network": {"nics": ranks}}, "hosts": 1},
                "model": {"graph": graph or MLP},
                "training": {
                    "global_batch": batch,
                    "micro_batch": batch // ways // micro_batches,
                    "seq_len": 1,
                    "precision": "fp32",
                    "optimizer": "sgd",
                    **(training or {}),
                },
                "parallel": {"mesh": mesh, **mode, **parallel},
            }
        )
    )


def data_parallel(ways: int, *, mean: bool = True, group: str = "world") -> dict[str, Any]:
    """MindSpore's manual data parallelism: the loss is AllReduce(SUM) / N, gradients are reduced by hand.

    With ``mean`` every rank takes the mean of its own samples, and gradients the mean of all ranks.
    """
    own = ways / BATCH if mean else 1 / BATCH
    total = {"op": "all_reduce", "name": "total", "inputs": ["own"], "group": group, "gradient": "identity"}
    if mean:
        total.pop("gradient")
    ends = [times("loss", "total", 1 / ways)] if mean else []
    return {
        "feeds": {name: {"split": {0: group}} for name in ("x", "labels")},
        "parameters": {"w1": {}, "w2": {}},
        "operators": [
            up("fc1", "x", "w1"),
            act("act", "fc1"),
            up("fc2", "act", "w2"),
            loss("own", "fc2", own),
            total,
            *ends,
        ],
        "loss": "loss" if mean else "total",
        "gradients": [{"group": group, "mean": mean}],
    }


class Given(SeededData):
    """A source whose feeds are given, a tensor of all ranks each."""

    feeds: dict[str, np.ndarray]

    def feed(self, name: str, *_: Any) -> np.ndarray:
        return self.feeds[name]


def arrays(which: Scenario, feeds: dict[str, np.ndarray]) -> dict[str, dict[int, np.ndarray]]:
    """What every rank makes in one step of a program that reads these feeds: value -> rank -> array."""
    built = build_scenario(which, unfold=True)
    program, classes = built.program, partition_ranks(built.program, built.cluster, unfold=True)
    timing = run(Workload(program, built.cluster, classes, steps=1, dispatch=built.plan.execution.dispatch))
    parts = [program.part_of(rank) for rank in classes.representatives]
    source = Given(0, np.dtype("float64"))
    object.__setattr__(source, "feeds", feeds)
    made: defaultdict[str, dict[int, np.ndarray]] = defaultdict(dict)
    record = RecordedValues.record_written

    def remember(recorded: RecordedValues, event: Any, index: int, array: np.ndarray) -> None:
        record(recorded, event, index, array)
        made[event.code.slots[index].name].setdefault(event.rank, array)

    with patch.object(RecordedValues, "record_written", remember):
        Replay(program, record_run(program, parts, timing.classes).table(), source).run()
    return dict(made)
