"""MindSpore's device matrices and tensor maps; groups as the reference's stride rule has them."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simcluster.layout import REPEATED, DeviceMatrix, Mesh, SplitMesh, SubAxis
from simcluster.model.operators.matmul import Matmul

MATMUL = Matmul(("rows", "inner"), (("inner", "columns"),), (("rows", "columns"),))
TRANSPOSED = Matmul(("rows", "inner"), (("columns", "inner"),), (("rows", "columns"),))
BATCHED = Matmul(
    ("batch", "rows", "inner"), (("batch", "inner", "columns"),), (("batch", "rows", "columns"),)
)


def matrix(operator, *factors, devices=None, **options):
    names = operator.dims().names
    return DeviceMatrix.of(dict(zip(names, factors, strict=True)), devices or math.prod(factors), **options)


def maps(operator, made):
    dims = operator.dims()
    return [made.tensor_map(names) for names in (*dims.inputs, *dims.outputs)]


def test_the_matrix_of_a_product_is_rows_contraction_columns():
    """Reference 3.2: MatMul maps A [2, 1], B [1, 0] ([0, 1] if transposed), C [2, 0]."""
    made = matrix(MATMUL, 2, 2, 2)
    assert made.sizes == (2, 2, 2)
    assert maps(MATMUL, made) == [(2, 1), (1, 0), (2, 0)]
    assert maps(TRANSPOSED, matrix(TRANSPOSED, 2, 2, 2)) == [(2, 1), (0, 1), (2, 0)]
    assert maps(BATCHED, matrix(BATCHED, 2, 2, 2, 2)) == [(3, 2, 1), (3, 1, 0), (3, 2, 0)]


def test_a_repeated_calculation_is_one_more_factor_on_either_side():
    left = matrix(MATMUL, 2, 1, 2, devices=16)
    assert (left.names[0], left.sizes) == (REPEATED, (4, 2, 1, 2))
    assert maps(MATMUL, left) == [(2, 1), (1, 0), (2, 0)], "what is on the left moves no map"
    right = matrix(MATMUL, 2, 1, 2, devices=16, repeated_on="right")
    assert right.sizes == (2, 1, 2, 4)
    assert maps(MATMUL, right) == [(3, 2), (2, 1), (3, 1)]


def test_dims_without_a_factor_are_not_split():
    assert matrix(MATMUL, 2, 2, 2).tensor_map(("rows", "elsewhere")) == (2, -1)


@given(
    sizes=st.lists(st.sampled_from([1, 2, 3, 4]), min_size=1, max_size=5), repeated=st.sampled_from([1, 2])
)
def test_a_group_along_a_dim_are_ranks_as_far_apart_as_the_dims_to_the_right_are_large(sizes, repeated):
    """Reference 3.2: coordinates differ in one dim only; stride = product of the lower dims."""
    names = [f"d{index}" for index in range(len(sizes))]
    made = DeviceMatrix.of(dict(zip(names, sizes, strict=True)), math.prod(sizes) * repeated)
    for index, name in enumerate(names):
        digit = made.digit(name)
        assert digit == SubAxis(math.prod(sizes[index + 1 :]), sizes[index])
        if digit.size > 1:
            mesh = Mesh.of({"devices": math.prod(sizes) * repeated})
            cut = SplitMesh.of(mesh, "", [digit])
            for group in cut.mesh.groups(cut.axes(digit)):
                assert group.tolist() == list(range(group[0], group[-1] + 1, digit.stride))
                assert len(group) == digit.size


@pytest.mark.parametrize(
    ("factors", "rows", "inner", "columns"),
    [
        ((2, 1, 4), [[0, 4], [1, 5], [2, 6], [3, 7]], None, [[0, 1, 2, 3], [4, 5, 6, 7]]),
        ((2, 4, 1), [[0, 4], [1, 5], [2, 6], [3, 7]], [[0, 1, 2, 3], [4, 5, 6, 7]], None),
    ],
)
def test_the_groups_of_the_references_examples(factors, rows, inner, columns):
    """Reference 3.5: ((2, 1), (1, 4)) and ((2, 4), (4, 1)) on 8 ranks."""
    made = matrix(MATMUL, *factors)
    for name, wanted in (("rows", rows), ("inner", inner), ("columns", columns)):
        if wanted is not None:
            digit = made.digit(name)
            cut = SplitMesh.of(Mesh.of({"devices": 8}), "", [digit])
            assert sorted(cut.mesh.groups(cut.axes(digit)).tolist()) == wanted
