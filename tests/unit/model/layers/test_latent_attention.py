"""Latent attention against its equations, head by head (arXiv 2405.04434, section 2.1 and appendix C)."""

from __future__ import annotations

import re

import numpy as np
import pytest

from simcluster.document import validate_data
from simcluster.model import Region
from simcluster.model.attributes.attention_scores import Scores
from simcluster.model.graph.block_builder import BlockBuilder
from simcluster.model.graph.operator import TensorType
from simcluster.model.layers.latent_attention import LatentAttention
from simcluster.model.layers.lightning_indexer import LightningIndexer
from simcluster.model.layers.transformer_layers import AttentionForm
from simcluster.model.model_flops import forward_flops
from simcluster.model.operators.rotary import Rotary
from simcluster.model.operators.sparse_attention import SparseAttention
from simcluster.model.spec.model_spec import ModelSpec
from simcluster.work import DType

BATCH, SEQ, HIDDEN, HEADS = 2, 5, 8, 3
WHOLE = Region({})


def normed(x, weight):
    return x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + 1e-5) * weight


def turned(x):
    (y,) = Rotary((("batch", "seq", "head_dim"),)).evaluate((x,), WHOLE)
    return y


def by_heads(latent, values, seen=None):
    """The paper's equations for one head after the other; ``seen`` [batch, query, key] or all before."""
    x = values["in"]
    c_kv = normed(x @ values["attention.latent.kv.latent.weight"], values["attention.latent.kv_norm.weight"])
    k_placed = turned(x @ values["attention.latent.kv.rope.weight"])
    c_q = x
    if latent.q_rank:
        c_q = normed(x @ values["attention.latent.q.weight"], values["attention.latent.q_norm.weight"])
    found = []
    for head in range(HEADS):
        q_own = c_q @ values["attention.query.nope.weight"][:, head, 0]
        q_placed = turned(c_q @ values["attention.query.rope.weight"][:, head, 0])
        k_own = c_kv @ values["attention.kv.k.weight"][:, head]
        v = c_kv @ values["attention.kv.v.weight"][:, head]
        marks = np.einsum("bqd,bkd->bqk", q_own, k_own) + np.einsum("bqd,bkd->bqk", q_placed, k_placed)
        marks = marks / np.sqrt(latent.nope_dim + latent.rope_dim)
        marks = np.where(np.tri(SEQ, dtype=bool) if seen is None else seen, marks, -np.inf)
        shares = np.exp(marks - marks.max(axis=-1, keepdims=True))
        found.append(shares / shares.sum(axis=-1, keepdims=True) @ v)
    return np.stack(found, axis=2)


@pytest.mark.parametrize("flash", [True, False])
@pytest.mark.parametrize("q_rank", [0, 6])
def test_it_is_the_attention_of_the_paper(q_rank, flash):
    latent = LatentAttention(kv_rank=4, nope_dim=4, rope_dim=2, value_dim=3, q_rank=q_rank)
    build = BlockBuilder("layer", DType.FP32)
    x = build.input("in", TensorType((BATCH, SEQ, HIDDEN), DType.FP32))
    made = latent.write(build, x, HIDDEN, HEADS, 10000.0)
    core = AttentionForm(Scores(), latent.head_dim**-0.5, flash=flash, own_values=True)
    o = core.write(build, "attention.core", made.q, made.k, made.v)
    rng = np.random.default_rng(2)
    values = {name: rng.standard_normal(build.values[name].type.shape) for name in ("in", *build.parameters)}
    known = dict(values)
    for node in build.nodes:
        made = node.operator.evaluate([known[name] for name in node.inputs], WHOLE)
        known.update(zip(node.outputs, made, strict=True))
    assert known[o].shape == (BATCH, SEQ, HEADS, 1, 3)
    assert np.allclose(known[o][:, :, :, 0], by_heads(latent, values))


@pytest.mark.parametrize("flash", [True, False])
def test_flops_of_its_scores_count_both_sizes_of_heads(flash):
    """2 s^2 (d_qk + d_v) for every head, the whole square: the convention of frameworks.md, section 7."""
    sizes = {"layers": 1, "hidden": 8, "heads": HEADS, "ffn": 8, "vocab": 16}
    latent = {"kv_rank": 4, "nope_dim": 4, "rope_dim": 2, "value_dim": 3, "q_rank": 6}
    model = validate_data({**sizes, "latent": latent}, ModelSpec).build(None)
    graph = model.computed(flash=flash, logits=None).graph(1, 32, DType.BF16, 1)
    weights = model.num_parameters - 16 * 8 - 3 * 8 - (6 + 4)
    assert forward_flops(graph).square == 2 * weights * 32 + 2 * 32**2 * HEADS * (6 + 3)


def test_a_kernel_on_filled_heads_does_the_work_of_their_size():
    """Heads of 6 and 3 elements are filled to 8; of the square of scores half are computed."""
    q, k, v = (TensorType((1, 4, HEADS, *rest), DType.BF16) for rest in ((1, 6), (6,), (3,)))
    core = AttentionForm(Scores(), 1.0, own_values=True, head_multiple=8).operator("core")
    outputs = core.infer((q, k, v))
    kernel, copies = core.work((q, k, v), outputs)
    rows = 4 * HEADS
    assert kernel.flops == 2 * (8 + 8) * HEADS * 4**2 / 2
    assert (copies.bytes_read, copies.bytes_written) == (2 * rows * (6 + 6 + 3 + 3), 2 * rows * (3 * 8 + 3))
    grad = core.backward()
    inputs = (q, k, v, *outputs, outputs[0])
    kernel, copies = grad.work(inputs, grad.infer(inputs))
    assert (copies.bytes_read, copies.bytes_written) == (2 * rows * (3 + 6 + 6 + 3), 2 * rows * (8 + 15))


def test_distances_of_a_table_are_read_where_queries_see_keys():
    q, k = TensorType((2, 4, HEADS, 1, 6), DType.BF16), TensorType((2, 4, HEADS, 6), DType.BF16)
    core = AttentionForm(Scores(alibi=(HEADS, 1)), 1.0, alibi_table=True).operator("core")
    _, table = core.work((q, k, k), core.infer((q, k, k)))
    assert (table.bytes_read, table.bytes_written) == (2 * 2 * HEADS * 4**2 / 2, 0)


SPARSE = {"heads": 3, "head_dim": 4, "tokens": 2}


def best_tokens(latent, values):
    """Which tokens each query attends to, by the equation of DeepSeek-V3.2 (section 2.1), pair by pair."""
    x, stem = values["in"], "attention.indexer"
    c_q = normed(x @ values["attention.latent.q.weight"], values["attention.latent.q_norm.weight"])
    q = np.einsum("bqr,rhd->bqhd", c_q, values[f"{stem}.query.weight"])
    k = x @ values[f"{stem}.key.weight"]
    k = (k - k.mean(axis=-1, keepdims=True)) / np.sqrt(k.var(axis=-1, keepdims=True) + 1e-5)
    k = k * values[f"{stem}.norm.weight"] + values[f"{stem}.norm.bias"]
    weights = x @ values[f"{stem}.weights.weight"]
    half = latent.rope_dim
    k = np.concatenate([turned(k[..., :half]), k[..., half:]], axis=-1)
    q = np.stack(
        [np.concatenate([turned(q[:, :, h, :half]), q[:, :, h, half:]], axis=-1) for h in range(q.shape[2])],
        axis=2,
    )
    seen = np.zeros((BATCH, SEQ, SEQ), dtype=bool)
    for b, t in np.ndindex(BATCH, SEQ):
        marks = [weights[b, t] @ np.maximum(q[b, t] @ k[b, s], 0) for s in range(t + 1)]
        seen[b, t, np.argsort(-np.array(marks), kind="stable")[: latent.sparse.tokens]] = True
    return seen


@pytest.mark.parametrize("absorbed", [True, False])
def test_sparse_attention_is_that_to_the_best_tokens(absorbed):
    sizes = {"kv_rank": 4, "nope_dim": 4, "rope_dim": 2, "value_dim": 3, "q_rank": 6}
    latent = LatentAttention(**sizes, sparse=LightningIndexer(**SPARSE))
    build = BlockBuilder("layer", DType.FP32)
    x = build.input("in", TensorType((BATCH, SEQ, HIDDEN), DType.FP32))
    made = latent.write(build, x, HIDDEN, HEADS, 10000.0, absorbed=absorbed)
    form = AttentionForm(Scores(), latent.head_dim**-0.5, own_values=True)
    o = build.add("core", SparseAttention(form.operator("core"), absorbed), made.q, made.k, made.v, made.ids)
    o = latent.values(build, o, HEADS) if absorbed else o
    rng = np.random.default_rng(3)
    values = {name: rng.standard_normal(build.values[name].type.shape) for name in ("in", *build.parameters)}
    known = dict(values)
    for node in build.nodes:
        made = node.operator.evaluate([known[name] for name in node.inputs], WHOLE)
        known.update(zip(node.outputs, made, strict=True))
    plain = {name: by_head(name, value) if absorbed else value for name, value in values.items()}
    found = known[o][:, :, 0] if absorbed else known[o][:, :, :, 0]
    assert np.allclose(found, by_heads(latent, plain, best_tokens(latent, plain)))


def by_head(name, value):
    """A weight of absorbed attention, which has one head and a group of them, as one that has heads."""
    if name.startswith("attention.query."):
        return value.swapaxes(1, 2)
    return value.squeeze(1) if re.match(r"attention\.(kv|latent\.kv\.latent)\.", name) else value


@pytest.mark.parametrize("seq", [3, 32])
def test_flops_of_sparse_attention_and_of_its_indexer(seq):
    """Twice ``2 kv_rank + rope_dim`` a head for each of ``k s - k^2 / 2`` pairs; scores of the triangle."""
    sizes = {"layers": 1, "hidden": 8, "heads": HEADS, "ffn": 8, "vocab": 16}
    latent = {"kv_rank": 4, "nope_dim": 4, "rope_dim": 2, "value_dim": 3, "q_rank": 6}
    sparse = {"heads": 3, "head_dim": 4, "tokens": 4}
    model = validate_data({**sizes, "latent": {**latent, "sparse": sparse}}, ModelSpec).build(None)
    norms = 3 * 8 + (6 + 4) + 2 * 4
    weights = 2 * (model.num_parameters - 16 * 8 - norms) * seq
    k = min(4, seq)
    scores = 3 * 4 * 2 * seq * -(-(seq**2) // (2 * seq))  # of so many keys in the mean, rounded up
    found = forward_flops(model.graph(1, seq, DType.BF16, 1)).counted
    assert found == weights + scores + 2 * HEADS * (2 * 4 + 2) * (2 * k * seq - k**2) / 2
