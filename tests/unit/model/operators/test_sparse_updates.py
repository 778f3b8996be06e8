"""Updates by rows: the closed forms of LazyAdam and FTRL on the rows that were named, nothing elsewhere."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simcluster.model import Region, TensorType
from simcluster.model.operators.embedding import EmbeddingGrad
from simcluster.model.operators.optimizer import Adam
from simcluster.model.operators.sparse_optimizers import Ftrl, LazyAdam
from simcluster.model.operators.sparse_updates import SparseUpdate
from simcluster.work import DType, Kernel

STEP = Region({}, step=3)


def drawn(seed: int, rows: int = 12, columns: int = 4, named: int = 10):
    rng = np.random.default_rng(seed)
    ids = rng.integers(0, rows, (named, 1))
    states = np.abs(rng.standard_normal((2, rows, columns)))
    return rng.standard_normal((rows, columns)), rng.standard_normal((named, 1, columns)), ids, *states


@given(st.integers(0, 200), st.sampled_from([LazyAdam(learning_rate=0.1), Ftrl(learning_rate=0.1, l1=0.2)]))
def test_named_rows_change_as_under_the_whole_gradient_and_no_others(seed, update):
    weights, grads, ids, *states = drawn(seed)
    (whole,) = EmbeddingGrad().evaluate((ids, grads, weights), STEP)
    made = SparseUpdate(update, 12).evaluate((weights, grads, ids, *states), STEP)
    named = np.isin(np.arange(12), ids)
    dense = update.step(weights, whole, tuple(states), STEP.step)
    for found, wanted, before in zip(made, dense, (weights, *states), strict=True):
        np.testing.assert_allclose(found[named], wanted[named], rtol=1e-12)
        np.testing.assert_array_equal(found[~named], before[~named])


def test_adam_on_the_whole_table_lets_the_moments_of_others_decay_and_lazy_adam_does_not():
    weights, grads, ids, *states = drawn(1)
    (whole,) = EmbeddingGrad().evaluate((ids, grads, weights), STEP)
    others = ~np.isin(np.arange(12), ids)
    _, decayed, _ = Adam().step(weights, whole, tuple(states), 3)
    _, kept, _ = SparseUpdate(LazyAdam(), 12).evaluate((weights, grads, ids, *states), STEP)
    np.testing.assert_allclose(decayed[others], 0.9 * states[0][others])
    np.testing.assert_array_equal(kept[others], states[0][others])


@given(st.integers(0, 200), st.integers(1, 3))
def test_parts_of_a_table_each_take_their_own_rows_of_all_ids(seed, cuts):
    weights, grads, ids, *states = drawn(seed)
    update = SparseUpdate(LazyAdam(), 12)
    whole = update.evaluate((weights, grads, ids, *states), STEP)
    size = 12 // (1 << cuts) or 1
    parts = []
    for start in range(0, 12, size):
        part = slice(start, start + size)
        region = Region({"vocab": start}, step=3)
        mine = (weights[part], grads, ids, *(state[part] for state in states))
        parts.append(update.evaluate(mine, region))
    for found, wanted in zip(zip(*parts, strict=True), whole, strict=True):
        np.testing.assert_array_equal(np.concatenate(found), wanted)


def test_one_step_of_ftrl_by_hand():
    # n 1 -> 5, z 0 -> 2 - (sqrt 5 - 1) / 0.5 * 0.25, and a weight of the other sign.
    update = Ftrl(learning_rate=0.5, l1=0.1, l2=0.2)
    (weight,), (added,), (linear,) = update.step(
        np.array([0.25]), np.array([2.0]), (np.array([0.0]), np.array([0.0])), 1
    )
    assert added == pytest.approx(4)
    assert linear == pytest.approx(2 - (5**0.5 - 1) / 0.5 * 0.25)
    assert weight == pytest.approx((0.1 - linear) / (5**0.5 / 0.5 + 0.4))


def test_ftrl_holds_a_weight_at_zero_while_its_sum_is_small():
    made = Ftrl(learning_rate=0.5, l1=10.0).step(
        np.array([0.25]), np.array([2.0]), (np.array([0.0]), np.array([0.0])), 1
    )
    assert made[0] == 0


def test_the_work_counts_named_rows_once_and_touched_rows_as_often_as_they_exist():
    table, ids = TensorType((1000, 80), DType.FP32), TensorType((16, 39), DType.INT64)
    rows = TensorType((16, 39, 80), DType.FP32)
    few = SparseUpdate(LazyAdam(), 1000)
    (work,) = few.work([table, rows, ids, table, table], few.infer([table, rows, ids, table, table]))
    row = 80 * 4
    assert work.kernel is Kernel.OPTIMIZER and work.size("rows") == 624
    assert work.bytes_read == 624 * 8 + 624 * row + 3 * 624 * row
    assert work.bytes_written == 3 * 624 * row
    # A quarter of the table: a quarter of the ids name its rows, of which there are only 100.
    part = TensorType((100, 80), DType.FP32)
    quarter = SparseUpdate(LazyAdam(), 400)
    kinds = [part, rows, ids, part, part]
    (work,) = quarter.work(kinds, quarter.infer(kinds))
    assert work.size("rows") == 156
    assert work.bytes_read == 624 * 8 + 156 * row + 3 * 100 * row
    assert work.bytes_written == 3 * 100 * row
