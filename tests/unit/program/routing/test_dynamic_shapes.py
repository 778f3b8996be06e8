"""Rows that ranks hold and exchange by a table are those that tokens take by their router."""

from __future__ import annotations

import numpy as np
import pytest

from simcluster.layout import Layout, Mesh
from simcluster.model import TensorType
from simcluster.model.operators.router import ExpertSlots
from simcluster.model.operators.token_dispatch import Dispatch
from simcluster.program.routing.dynamic_shapes import Extent, RaggedDims, exchanged_elements, filled_type
from simcluster.work import DType
from tests.contracts.operator_case import WHOLE

BATCH, SEQ, HIDDEN = 4, 12, 4
EXPERTS = [8, 3, 2]
"""Fewer than some layouts have ranks, too: parts are short then, or empty, as those of samples are."""

SEATED = RaggedDims(0, (1,), 2)


def slotted(rng, experts, samples=BATCH):
    """[experts, batch, capacity, hidden]: one row of ones for every choice, and the tokens of every expert.

    All samples choose alike, as a table says.
    """
    ids = np.argsort(rng.random((1, SEQ, experts)) - np.arange(experts) / 9, axis=-1)[..., :2]
    ids = np.repeat(ids, samples, axis=0)
    (slots,) = ExpertSlots(experts, SEQ).evaluate((ids,), WHOLE)
    (made,) = Dispatch(experts, SEQ).evaluate((np.ones((samples, SEQ, HIDDEN)), slots), WHOLE)
    return made, np.bincount(ids[0].ravel(), minlength=experts)


LAYOUTS = [
    ((), ("data", "expert"), (), ()),
    (("expert",), ("data",), (), ()),
    (("expert", "data"), (), (), ()),
    (("data",), ("expert",), (), ("tensor",)),
    ((), ("data",), (), ("expert",)),
    (("expert",), ("data",), (), ("tensor",)),
]
MESH = Mesh.of({"data": 2, "expert": 4, "tensor": 2})


def own(array, layout, rank):
    """Where a rank's part has rows in it, at their places in the whole: a mask of all elements."""
    found = np.zeros(array.shape, dtype=bool)
    part = layout.slices(array.shape, MESH, rank)
    found[part] = array[part] != 0
    return found


@pytest.mark.combinations
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("experts", EXPERTS)
@pytest.mark.parametrize("dims", LAYOUTS, ids=str)
def test_ranks_hold_what_is_slotted(dims, experts, seed):
    array, counts = slotted(np.random.default_rng(seed), experts)
    layout = Layout(dims)
    whole = TensorType(array.shape, DType.FP32)
    rows = Extent.of(whole, layout, MESH).rows(SEATED, counts)
    local = TensorType(layout.local_shape(array.shape, MESH), DType.FP32)
    for rank in range(MESH.num_ranks):
        wanted = own(array, layout, rank).sum()
        assert rows[rank] / SEQ * local.shape[3] == wanted
        kind = filled_type(local, SEATED, int(rows[rank]), SEQ)
        # Equally many for each of its experts, rounded up.
        assert 0 <= kind.num_elements - wanted < local.shape[0] * local.shape[3]


@pytest.mark.combinations
@pytest.mark.parametrize("experts", EXPERTS)
@pytest.mark.parametrize("after", LAYOUTS, ids=str)
@pytest.mark.parametrize("before", LAYOUTS, ids=str)
def test_ranks_exchange_what_is_slotted(before, after, experts):
    """From i to j goes what both hold, before and behind; whatever else the exchange is."""
    array, counts = slotted(np.random.default_rng(experts), experts)
    layouts = Layout(before), Layout(after)
    whole = TensorType(array.shape, DType.FP32)
    groups = MESH.groups(("data", "expert"))
    extents = [Extent.of(whole, layout, MESH) for layout in layouts]
    found = exchanged_elements(*extents, groups, SEATED, counts)
    for number, members in enumerate(groups):
        for i, sender in enumerate(members):
            for j, receiver in enumerate(members):
                both = own(array, layouts[0], sender) & own(array, layouts[1], receiver)
                assert found[number, i, j] / SEQ == both.sum()
