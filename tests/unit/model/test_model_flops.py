"""Model and hardware FLOPs against the published formulas."""

from __future__ import annotations

import pytest

from simcluster.document import validate_data
from simcluster.model import Add, TensorType, padded
from simcluster.model.model_flops import Flops, forward_flops, matrix_flops
from simcluster.model.operators.ring_attention import RingAttentionStep
from simcluster.model.spec.model_spec import ModelSpec
from simcluster.simulation import simulate
from simcluster.work import DType
from tests.support.scenarios import TINY_GPT, scenario


def model(**changes):
    return validate_data(changes, ModelSpec).build(None)


def training_flops(which, batch, seq):
    return forward_flops(which.graph(batch, seq, DType.BF16, 1)) * 3


@pytest.mark.parametrize(
    ("name", "seq"), [("gpt3-175b", 2048), ("gpt3-1.3b", 1024), ("megatron-22b", 2048), ("megatron-1t", 2048)]
)
def test_both_published_forms(name, seq):
    """``72 B l s h^2 (1 + s / (6 h) + V / (12 l h))`` (Megatron), with ``s / (12 h)`` in Megatron-Core now.

    The form counts 4 h^2 for attention's projections, so heads x head_dim is h here.
    """
    which, batch = model(use=name), 3
    l, h, v = which.layers, which.hidden, which.vocab  # noqa: E741
    found = training_flops(which, batch, seq)

    def form(attention):
        return 72 * batch * l * seq * h**2 * (1 + attention + v / (12 * l * h))

    assert found.square == pytest.approx(form(seq / (6 * h)), rel=1e-12)
    assert found.counted == pytest.approx(form(seq / (12 * h)), rel=1e-12)


def test_the_form_of_torchtitan_and_palm():
    """``6 (N - N_embedding) + 12 l a d s`` a token: grouped heads and a gate, head counted, lookup free."""
    which, seq = model(use="llama3-8b"), 8192
    norms = which.hidden * (2 * which.layers + 1)
    matrices = which.num_parameters - which.vocab * which.hidden - norms
    attention = 12 * which.layers * which.heads * which.head_dim * seq
    found = training_flops(which, 1, seq)
    assert found.square == seq * (6 * matrices + attention)
    assert found.counted == seq * (6 * matrices + attention / 2)


def test_a_window_counts_what_is_seen():
    """Of s queries, those beyond the window see w keys each, the others a triangle."""
    sizes = {"layers": 2, "hidden": 64, "heads": 4, "ffn": 128, "vocab": 64}
    whole, windowed = (training_flops(model(**sizes, **more), 1, 512) for more in ({}, {"window": 128}))
    assert windowed.square == whole.square
    cut = 3 * 2 * 2 * 64 * (512 - 128) ** 2  # three passes, two layers, 2 FLOPs, h, the triangle cut off x 2
    assert whole.counted - windowed.counted == cut


def test_what_attention_in_separate_kernels_does_not_skip():
    """Products of their own compute the whole square, whose masked half is no model FLOP."""
    flash = model(layers=2, hidden=64, heads=4, ffn=128, vocab=64)
    separate = flash.computed(flash=False, logits=None)
    found, other = (forward_flops(each.graph(1, 128, DType.BF16, 1)) for each in (flash, separate))
    assert other.counted == other.square == found.square > found.counted


def test_turns_of_a_ring_make_up_the_square():
    """Keys that a causal turn leaves out count in the convention that counts the whole square."""
    length, turns = 16, 4
    q = TensorType((1, length, 2, 1, 8), DType.BF16)
    works = [
        RingAttentionStep(Add((), 2), turn, turns, length, True).work([q] * 3, [q]) for turn in range(turns)
    ]
    found = sum(map(matrix_flops, works), Flops())
    assert found.square == 2 * 2 * 8 * 2 * length * (length * turns)
    assert found.counted == found.square / 2


@pytest.mark.parametrize("recompute", ["none", "all"])
def test_utilisation_in_both_conventions(recompute):
    """Flash attention computes its scores again in the backward: 7 products for the 6 of the model; full
    recomputation adds the forward of all layers."""
    which = scenario({"data": 2}, model=TINY_GPT, micro_batches=2, recompute={"layers": recompute})
    found = simulate(which).documents["summary"]
    graph = padded(which.model, 128).graph(1, 8, DType.BF16, 1)
    forward = forward_flops(graph)
    head = 2 * 8 * 32 * 128
    square = 2 * 2 * 8 * 8 * 32 * 4
    executed = 3 * forward.square + square / 2 + (forward.square - head if recompute == "all" else 0)
    unpadded = forward_flops(which.model.graph(1, 8, DType.BF16, 1))
    assert found["hfu_full_attention"] / found["mfu_full_attention"] == pytest.approx(
        executed / (3 * unpadded.square)
    )
    assert found["mfu_full_attention"] / found["mfu"] == pytest.approx(unpadded.square / unpadded.counted)
