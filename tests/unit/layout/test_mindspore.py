"""Layouts in the form of MindSpore's Layout class."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simcluster.errors import ScenarioError
from simcluster.layout import Mesh, MindSporeLayout, SplitMesh, SubAxis

LAYOUT = MindSporeLayout((8, 4, 4), ("dp", "sp", "mp"))


def refused(match, *arguments, **options):
    with pytest.raises(ScenarioError, match=match):
        MindSporeLayout(*arguments, **options)


def test_maps_count_from_the_right_and_several_axes_split_one_dim():
    """Reference 3.1: layout("dp", ("sp", "mp"), "None")."""
    placed = LAYOUT("dp", ("sp", "mp"), "None")
    assert placed.dims == (("dp",), ("sp", "mp"), ())
    assert placed.tensor_map == (2, (1, 0), -1)


def test_digits_are_those_of_the_matrix():
    assert LAYOUT.digits("dp") == (SubAxis(16, 8),)
    assert LAYOUT.digits("mp") == (SubAxis(1, 4),)
    assert MindSporeLayout((4, 1), ("a", "b")).digits("b") == ()


def test_a_rank_list_reorders_the_ranks():
    across = MindSporeLayout((2, 4), ("dp", "mp"), tuple(np.arange(8).reshape(4, 2).T.ravel().tolist()))
    assert across.digits("dp") == (SubAxis(1, 2),)
    assert across.digits("mp") == (SubAxis(2, 4),)
    later = MindSporeLayout((2, 4), ("dp", "mp"), tuple(range(8, 16)))
    assert later.digits("mp") == (SubAxis(1, 4),), "the ranks of the second stage"
    split = MindSporeLayout((4, 2), ("dp", "mp"), (0, 2, 1, 3, 4, 6, 5, 7))
    assert split.digits("mp") == (SubAxis(2, 2),)
    assert split.digits("dp") == (SubAxis(4, 2), SubAxis(1, 2)), "one alias may be several digits"


@given(
    factors=st.lists(st.sampled_from([2, 3]), min_size=1, max_size=4),
    order=st.permutations(range(4)),
    join=st.integers(1, 3),
)
@settings(max_examples=40)
def test_any_order_of_digits_is_found_again(factors, order, join):
    """Ranks laid out with permuted digits: the groups along every alias are those of the matrix."""
    order = [place for place in order if place < len(factors)]
    ranks = np.arange(np.prod(factors)).reshape(factors).transpose(order)
    sizes = [factors[place] for place in order]
    matrix = (int(np.prod(sizes[:join])), *sizes[join:])
    aliases = tuple(f"a{index}" for index in range(len(matrix)))
    layout = MindSporeLayout(matrix, aliases, tuple(ranks.ravel().tolist()))
    digits = {alias: layout.digits(alias) for alias in aliases}
    cut = SplitMesh.of(
        Mesh.of({"devices": int(ranks.size)}), "", [d for each in digits.values() for d in each]
    )
    for index, alias in enumerate(aliases):
        axes = [axis for digit in digits[alias] for axis in cut.axes(digit)]
        wanted = np.moveaxis(np.array(layout.rank_list).reshape(matrix), index, -1).reshape(-1, matrix[index])
        assert sorted(cut.mesh.groups(axes).tolist()) == sorted(wanted.tolist())


def test_what_is_no_layout_is_refused():
    refused("device_matrix has 2 dims, alias_name 1 names", (2, 4), ("dp",))
    refused("different names", (2, 4), ("dp", "dp"))
    refused("different names", (2, 4), ("dp", "None"))
    refused("needs sizes of at least 1", (2, 0), ("dp", "mp"))
    ranks = "rank_list has 7 different ranks among 8, device_matrix 2 x 4 = 8"
    refused(ranks, (2, 4), ("dp", "mp"), (0, *range(7)))
    refused("8 different ranks among 9", (2, 4), ("dp", "mp"), (0, *range(8)))
    with pytest.raises(ScenarioError, match="the layout has no alias 'tp'"):
        LAYOUT("tp")
    with pytest.raises(ScenarioError, match="alias 'dp' splits two dims at once"):
        LAYOUT("dp", ("mp", "dp"))


def test_irregular_ranks_are_refused():
    with pytest.raises(ScenarioError, match="in no regular way"):
        MindSporeLayout((4, 1), ("dp", "mp"), (0, 1, 3, 2)).digits("dp")
    with pytest.raises(ScenarioError, match="no one stride"):
        MindSporeLayout((2, 2), ("dp", "mp"), (0, 1, 3, 2)).digits("mp")
