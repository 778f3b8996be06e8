"""Tensor-parallel collectives of the backward: beside the other matmul, or waited for, as the profile says.

Megatron gathers the saved input of a column-parallel layer beside the matmul of the input's gradient, and
reduces that gradient beside the matmul of the weight's (megatron/core/tensor_parallel/layers.py).
"""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from simcluster.plan.spec.framework import FrameworkSpec
from simcluster.report import tables as columns
from simcluster.scenario import Scenario
from simcluster.simulation import simulate
from tests.support.covering import quick

MODEL = {"layers": 2, "hidden": 4096, "heads": 32, "kv_heads": 8, "ffn": 14336, "vocab": 4096}
PROFILES = sorted(FrameworkSpec.entries())
FEW = ("megatron-core", "megatron-lm-2021")
"""A profile whose collectives run beside kernels, and one whose kernels wait."""


@cache
def backward(framework: str, recipe: str):
    """Operator -> (stream, start, end) in ns, of the backward of the last layer."""
    run = simulate(
        Scenario.of(
            {
                "simcluster": 1,
                "name": "one step",
                "cluster": {"use": "dgx-h100", "hosts": 1},
                "framework": framework,
                "model": MODEL,
                "training": {
                    "global_batch": 2,
                    "micro_batch": 2,
                    "seq_len": 8192,
                    "precision": "bf16",
                    "optimizer": "adamw",
                },
                "parallel": {"mesh": {"tensor": 8}, "recipe": recipe},
            }
        )
    )
    table = columns.spans_table(run)
    names, streams, actions = table.text("operator"), table.text("stream"), table.text("action")
    nanoseconds = [np.rint(table[name] * 1e9).astype(int) for name in ("start_s", "end_s")]
    return {
        str(names[row]).removeprefix("layers.1."): (str(streams[row]), int(start), int(end))
        for row, (start, end) in enumerate(zip(*nanoseconds, strict=True))
        if str(names[row]).startswith("layers.1.") and str(actions[row]).startswith("B")
    }


@pytest.mark.combinations
@pytest.mark.parametrize("framework", quick(PROFILES, *FEW))
@pytest.mark.parametrize("recipe", ["megatron", "megatron_sp"])
def test_a_column_parallel_backward_takes_the_longer_of_each_pair(framework, recipe):
    found = backward(framework, recipe)
    profile = FrameworkSpec.load(framework)
    asynchronous = profile.layer_collectives.value == "overlapped"
    split = recipe == "megatron_sp"
    gathers = split and profile.saved_activations.value == "as_made"
    for layer, norm in (("attention.qkv", "attention.norm"), ("mlp.up", "mlp.norm")):
        (_, begun, there), (_, start, over) = found[f"{layer}.dgrad"], found[f"{layer}.wgrad"]
        reduction = "reduce_scatter" if split else "all_reduce"
        stream, reducing, reduced = found[f"{layer}.dgrad.{reduction}"]
        assert stream == "tensor"
        if gathers:
            _, gathering, gathered = found[f"{norm}.all_gather2"]
        else:
            assert f"{norm}.all_gather2" not in found
            gathering, gathered = begun, begun
        if asynchronous:
            assert gathering == begun
            assert start == max(there, gathered)
            assert reducing == max(there, gathered)
        else:
            assert gathering in (there, begun)
            assert start >= max(there, gathered)
            # Issued behind the weight gradient, and its accumulation.
            assert reducing >= over
        assert found[f"{norm}.grad"][1] >= reduced


@pytest.mark.parametrize("framework", quick(PROFILES, *FEW))
def test_where_kernels_wait_nothing_runs_beside_a_collective(framework):
    found = backward(framework, "megatron_sp").values()
    kernels = [(start, end) for stream, start, end in found if stream == "compute"]
    moved = [(start, end) for stream, start, end in found if stream == "tensor"]
    beside = sum(max(0, min(one[1], other[1]) - max(one[0], other[0])) for one in kernels for other in moved)
    assert bool(beside) == (FrameworkSpec.load(framework).layer_collectives.value == "overlapped")
