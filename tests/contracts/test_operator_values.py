"""Every operator kind: a value among values, whose results have the shapes and precision it says."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest

from simcluster.layout import Strategy
from tests.contracts.operator_case import WHOLE, type_of
from tests.contracts.operator_cases import cases, cases_of, quick_cases, registered
from tests.contracts.operator_checks import local_types
from tests.contracts.operator_mesh import SMALL, extents

every_case = pytest.mark.parametrize("case", cases(), ids=str)
one_of_each_kind = quick_cases(cases())


def test_every_kind_has_a_case():
    for kind in registered():
        assert cases_of(kind)
    assert {case.operator.kind for case in cases()} == set(registered())


def test_no_two_cases_have_one_name():
    names = [case.name for case in cases()]
    assert len(names) == len(set(names))


def test_a_kind_without_a_case_is_told_where_to_write_one():
    with pytest.raises(
        AssertionError, match=r"'no such kind' has no case: add one to CASES of a file in .*cases"
    ):
        cases_of("no such kind")


@every_case
def test_an_operator_is_a_value(case):
    """Blocks, memos and codes compare and hash operators."""
    again = type(case.operator)(*(getattr(case.operator, each.name) for each in fields(case.operator)))
    assert again == case.operator
    assert hash(again) == hash(case.operator)
    assert case.operator.family


@every_case
def test_dims_name_every_dim_of_every_operand(case):
    dims = case.operator.dims()
    outputs = case.operator.infer(case.types)
    assert [len(names) for names in dims.inputs] == [len(kind.shape) for kind in case.types]
    assert [len(names) for names in dims.outputs] == [len(kind.shape) for kind in outputs]
    extent = extents(case.operator, case.inputs, case.resized)
    steps = {(each.operand, each.dim): each.step for each in dims.windows}
    for operand, (names, kind) in enumerate(zip(dims.outputs, outputs, strict=True), len(dims.inputs)):
        for name, length in zip(names, kind.shape, strict=True):
            size = length * steps.get((operand, name), 1)
            assert size == extent[name] or (name in case.resized and size % extent[name] == 0)
    for dim, reason in dims.unsplittable:
        assert dim in dims.names
        assert reason
    for members in dims.linear:
        assert members <= set(case.floating)


@one_of_each_kind
def test_infer_agrees_with_evaluate_on_whole_and_local_shapes(case):
    operator = case.operator
    dims = operator.dims()
    kinds = operator.infer(case.types)
    whole = operator.evaluate(case.inputs, WHOLE)
    assert [kind.shape for kind in kinds] == [array.shape for array in whole]
    assert [kind.dtype.is_float for kind in kinds] == [type_of(array).dtype.is_float for array in whole]
    for ranks in SMALL:
        for strategy in ranks.legal(operator, dims.splittable, case.inputs, case.resized):
            inferred = operator.infer(local_types(case.types, dims.input_layouts(strategy), ranks))
            read = Strategy(tuple(each for each in strategy.splits if any(each[0] in x for x in dims.inputs)))
            assert list(inferred) == local_types(kinds, dims.output_layouts(read), ranks)
            local = [
                layout.local_shape(kind.shape, ranks.mesh)
                for kind, layout in zip(kinds, dims.output_layouts(strategy), strict=True)
            ]
            for made in ranks.made(operator, strategy, case.inputs, resized=case.resized):
                assert [array.shape for array in made] == local


@every_case
def test_values_keep_the_precision_of_the_inputs(case):
    lower = [array.astype(np.float32) if array.dtype.kind == "f" else array for array in case.inputs]
    kinds = case.operator.infer(case.types)
    for index, (array, kind) in enumerate(zip(case.operator.evaluate(lower, WHOLE), kinds, strict=True)):
        if kind.dtype.is_float:
            assert array.dtype == np.float32, f"output {index}"
        else:
            assert type_of(array).dtype is kind.dtype, f"output {index}"


@every_case
def test_values_are_deterministic(case):
    first, second = (case.operator.evaluate(case.inputs, WHOLE) for _ in range(2))
    for one, two in zip(first, second, strict=True):
        assert np.array_equal(one, two)
        assert np.isfinite(one).all()
