"""Overlapped forwards and backwards: in which order their segments take turns."""

from __future__ import annotations

from simcluster.scenario import Scenario
from simcluster.simulation import build_scenario

PLAN = {
    "simcluster": 1,
    "name": "pairs",
    "cluster": {"use": "dgx-h100", "hosts": 1},
    "framework": "ideal",
    "model": {
        "family": "llama",
        "layers": 2,
        "hidden": 64,
        "heads": 4,
        "vocab": 64,
        "experts": {"count": 8, "top_k": 2, "ffn": 32},
    },
    "training": {"global_batch": 16, "micro_batch": 1, "seq_len": 16, "precision": "bf16"},
    "parallel": {"mesh": {"data": 1, "expert": 8}, "schedule": {"pairs": True}},
}


def test_layers_of_a_pair_stand_side_by_side_and_gradients_leave_before_attention():
    program = build_scenario(Scenario.of(PLAN)).program
    steps = []
    for execution in program.parts[0].executions:
        computed = {
            call.name
            for instruction in program.codes[execution.code].instructions
            for call in instruction.calls
        }
        if execution.action == "F1&B0":
            steps += [
                (execution.instance, name)
                for name in ("attention.core", "mlp.experts.up", "mlp.combine.grad", "attention.core.grad")
                if name in computed
            ]
    first, last = "layers.0", "layers.1"
    assert steps == [
        *[(last, "mlp.combine.grad"), (first, "attention.core")],
        *[(first, "mlp.experts.up"), (last, "attention.core.grad")],
        *[(first, "mlp.combine.grad"), (last, "attention.core")],
        *[(last, "mlp.experts.up"), (first, "attention.core.grad")],
    ]
