"""What several layers read is held once per stage and micro-batch, whoever reads it."""

from __future__ import annotations

import numpy as np
import pytest

from simcluster.scenario import Scenario
from simcluster.simulation import simulate
from tests.support.covering import quick, quick_at

B, S, H, A, D, F = 2, 256, 512, 8, 64, 1536
UNIT = S * B * H
T5 = {"family": "t5", "hidden": H, "heads": A, "head_dim": D, "ffn": F, "vocab": 4096}


def account(encoder, decoder, mesh, *, micro_batches=1, recipe="megatron"):
    ranks = int(np.prod([*mesh.values()]))
    made = Scenario.of(
        {
            "simcluster": 1,
            "name": "shared",
            "cluster": {"host": {"use": "dgx-a100", "devices": ranks, "network": {"nics": 1}}, "hosts": 1},
            "model": {**T5, "encoder_layers": encoder, "decoder_layers": decoder},
            "training": {"global_batch": micro_batches * B, "micro_batch": B, "seq_len": S},
            "parallel": {"mesh": mesh, "recipe": recipe},
        }
    )
    return simulate(made).memory


def peak(*args, **options):
    """Bytes of activations at their peak, in units of s b h."""
    found = account(*args, **options)
    ours = found["category"] == found.index("category", "activations")
    return np.cumsum(found["bytes"][ours]).max() / UNIT


@pytest.mark.parametrize(("mesh", "t"), quick_at([({"data": 1}, 1), ({"tensor": 4}, 4)], 1))
def test_a_layer_keeps_what_its_own_operators_read(mesh, t):
    """Norms their input and what they give to projections; heads and MLP; no copy of what is shared.

    In 16 bits: 2 (2 h + 4 a d / t) for self-attention, the same again for attention to the encoder, and
    2 (2 h + f / t) for an MLP whose ReLU keeps its output only; besides the rows' statistics in 32 bits.
    """
    attention = 2 * (2 * H + 4 * A * D / t) + 4 * A / t + 4
    mlp = 2 * (2 * H + F / t) + 4
    encoder = (peak(4, 2, mesh) - peak(2, 2, mesh)) / 2
    decoder = (peak(2, 4, mesh) - peak(2, 2, mesh)) / 2
    assert encoder == pytest.approx((attention + mlp) / H, rel=1e-6)
    assert decoder == pytest.approx((2 * attention + mlp) / H, rel=1e-6)


@pytest.mark.parametrize("recipe", quick(["megatron", "megatron_sp"], "megatron_sp"))
def test_shared_values_and_their_gradients_are_held_once_per_stage_and_micro_batch(recipe):
    """Encoder 2 + decoder 4 layers on three stages: the encoder's output is passed on and comes back."""
    found = account(2, 4, {"pipeline": 3, "tensor": 2}, micro_batches=4, recipe=recipe)
    parts = 2 if recipe == "megatron_sp" else 1
    names = found.names["buffer"]
    sizes = {"encoder.output:out": 2 * UNIT / parts, "encoder.output:out.grad": 2 * UNIT / parts}
    # The encoder ends on the first stage, and no reader is there: its part of the gradient is received.
    stages = {name: {0, 1, 2} for name in sizes}
    for stage, name in ((0, "encoder.positions"), (1, "decoder.positions"), (2, "decoder.positions.2")):
        for value in (f"{name}:out", f"{name}:out.grad"):
            sizes[value], stages[value] = 2 * (A // 2) * S * S, {stage}
    for name, size in sizes.items():
        rows = found.where(found["buffer"] == names.index(name))
        assert set(rows["class"].tolist()) == stages[name], name
        for each in stages[name]:
            mine = rows.where(rows["class"] == each)
            assert mine["bytes"].tolist().count(size) == 4, f"{name}: allocated once per micro-batch"
            assert mine["bytes"].tolist().count(-size) == 4, f"{name}: released once per micro-batch"
            assert np.cumsum(mine["bytes"]).min() >= 0


def test_nothing_is_left_and_nothing_is_released_twice():
    found = account(3, 3, {"pipeline": 3, "data": 2}, micro_batches=4, recipe="data")
    for kind in ("activations", "temporary", "communication"):
        for each in range(found["class"].max() + 1):
            mine = (found["category"] == found.index("category", kind)) & (found["class"] == each)
            mine &= found["micro_batch"] >= 0
            level = np.cumsum(found["bytes"][mine])
            assert level.size == 0 or (level.min() >= 0 and level[-1] == 0), kind
