"""Every operator kind on all legal layouts of 4 and 8 ranks: no wrong and no missing rule.

Layouts are checked the way DTensor validates its strategies: every assignment of the axes of a mesh to the
operator's dims is computed on all ranks and compared with one device, for the operator and for its gradient,
those that ``dims`` allows and those that it refuses. On 8 ranks the thorough run tries a twentieth, drawn by
the case's name; all of them is marked ``exhaustive``.
"""

from __future__ import annotations

import pytest

from simcluster.layout import Strategy
from tests.contracts.operator_case import WHOLE
from tests.contracts.operator_cases import cases, quick_cases
from tests.contracts.operator_checks import (
    linear_sets,
    missing_splits,
    wrong_parts,
    wrong_sums,
    wrong_values,
)
from tests.contracts.operator_mesh import LARGE, PAIR, SMALL, extents, twentieth
from tests.contracts.operator_tape import subsets
from tests.support.covering import quick

every_case = pytest.mark.parametrize("case", cases(), ids=str)
one_of_each_kind = quick_cases(cases())
on_large = pytest.mark.parametrize("ranks", LARGE, ids=str)


def legal(case, ranks, *more):
    return ranks.legal(case.operator, (*case.operator.dims().splittable, *more), case.inputs, case.resized)


def decomposed():
    for case in cases():
        for split in subsets([dim for dim, _ in case.operator.dims().unsplittable]):
            if case.operator.decompose(frozenset(split)) is not None:
                yield case, split


DECOMPOSED = list(decomposed())
FIRST = {(case.operator.kind, split): (case, split) for case, split in reversed(DECOMPOSED)}.values()


def each_decomposed(parameters):
    return pytest.mark.parametrize(
        ("case", "split"),
        parameters,
        ids=lambda value: "+".join(value) if isinstance(value, tuple) else str(value),
    )


# -- no wrong rule ---------------------------------------------------------------------------------------


@one_of_each_kind
def test_every_legal_layout_on_few_ranks_gives_the_values_of_one_device(case):
    dims = case.operator.dims()
    assert dims.splittable or case.operator.decompose(frozenset(dims.names)) or not dims.names
    extent = extents(case.operator, case.inputs, case.resized)
    for dim in dims.splittable:
        assert extent[dim] % 4 == 0, f"{dim}: choose a size that divides by 4"
    wrong = []
    for ranks in SMALL:
        wrong += wrong_values(case, ranks, legal(case, ranks))
    assert not wrong


@pytest.mark.thorough
@every_case
def test_a_twentieth_of_the_layouts_on_eight_ranks_gives_the_values_of_one_device(case):
    wrong = []
    for ranks in LARGE:
        wrong += wrong_values(case, ranks, twentieth(legal(case, ranks), f"{case} {ranks}"))
    assert not wrong


@pytest.mark.exhaustive
@on_large
@every_case
def test_every_legal_layout_on_eight_ranks_gives_the_values_of_one_device(case, ranks):
    assert not wrong_values(case, ranks, legal(case, ranks))


# -- no missing rule -------------------------------------------------------------------------------------


@one_of_each_kind
def test_no_dim_is_declared_whole_that_could_be_split(case):
    assert missing_splits(case) == set(case.unsplit)


@one_of_each_kind
def test_every_linearity_is_declared(case):
    """Every largest set of jointly linear inputs is declared, or listed with a reason."""
    largest = linear_sets(case)
    declared = set(case.operator.dims().linear)
    assert declared <= largest, "a declared set is not linear, or not as large as it could be"
    assert largest - declared == set(case.nonlinear)


# -- partial sums ----------------------------------------------------------------------------------------


@one_of_each_kind
def test_partial_sums_pass_through_linear_sets(case):
    assert not [wrong for ranks in SMALL for wrong in wrong_sums(case, ranks)]


@pytest.mark.thorough
@every_case
def test_partial_sums_pass_through_linear_sets_beside_a_twentieth_of_the_layouts_on_eight_ranks(case):
    wrong = []
    for ranks in LARGE:
        wrong += wrong_sums(
            case, ranks, lambda found, axis, ranks=ranks: twentieth(found, f"{case} {ranks} {axis}")
        )
    assert not wrong


@pytest.mark.exhaustive
@on_large
@every_case
def test_partial_sums_pass_through_linear_sets_on_eight_ranks(case, ranks):
    assert not wrong_sums(case, ranks)


@one_of_each_kind
def test_nothing_partial_passes_anywhere_else(case):
    dims = case.operator.dims()
    everything = subsets(range(len(dims.inputs)))
    for partial in map(frozenset, everything):
        declared = any(partial <= members for members in dims.linear)
        assert (dims.passes("a", partial, Strategy()) is not None) == declared
        for dim in dims.splittable:
            used = Strategy.of({dim: ("b", "a")})
            assert dims.passes("a", partial, used) is None, (
                "an axis that splits the work cannot be partial too"
            )


# -- decompositions --------------------------------------------------------------------------------------


@each_decomposed(quick(DECOMPOSED, *FIRST))
def test_a_decomposition_is_the_operator(case, split):
    operator = case.operator
    dims = operator.dims()
    parts = operator.decompose(frozenset(split)).parts
    assert len({suffix for suffix, *_ in parts}) == len(parts)
    values = {f"in{index}": array for index, array in enumerate(case.inputs)}
    names = {f"in{index}": each for index, each in enumerate(dims.inputs)}
    types = {f"in{index}": kind for index, kind in enumerate(case.types)}
    for _, each, inputs, outputs in parts:
        own = each.dims()
        assert not set(split) & {dim for dim, _ in own.unsplittable}
        values.update(zip(outputs, each.evaluate([values[name] for name in inputs], WHOLE), strict=True))
        names.update(zip(outputs, own.outputs, strict=True))
        types.update(zip(outputs, each.infer([types[name] for name in inputs]), strict=True))
    expected = zip(operator.evaluate(case.inputs, WHOLE), operator.infer(case.types), strict=True)
    for index, (want, kind) in enumerate(expected):
        assert values[f"out{index}"] == pytest.approx(want, rel=1e-12)
        assert names[f"out{index}"] == dims.outputs[index]
        assert types[f"out{index}"] == kind


@each_decomposed(quick(DECOMPOSED, *FIRST))
def test_a_decomposition_is_right_on_every_layout(case, split):
    assert not [wrong for ranks in SMALL for wrong in wrong_parts(case, ranks, legal(case, ranks, *split))]


@pytest.mark.thorough
@each_decomposed(DECOMPOSED)
def test_a_decomposition_is_right_on_a_twentieth_of_the_layouts_on_eight_ranks(case, split):
    wrong = []
    for ranks in LARGE:
        wrong += wrong_parts(case, ranks, twentieth(legal(case, ranks, *split), f"{case} {split} {ranks}"))
    assert not wrong


@pytest.mark.exhaustive
@on_large
@each_decomposed(DECOMPOSED)
def test_a_decomposition_is_right_on_every_layout_of_eight_ranks(case, split, ranks):
    assert not wrong_parts(case, ranks, legal(case, ranks, *split))


@every_case
def test_only_unsplittable_dims_are_decomposed(case):
    dims = case.operator.dims()
    assert case.operator.decompose(frozenset()) is None
    for dim in dims.splittable:
        assert case.operator.decompose(frozenset({dim})) is None
    assert case.operator.decompose(frozenset({"no such dim"})) is None


@one_of_each_kind
def test_one_mesh_tries_every_split(case):
    """The meshes are no smaller than the sizes allow: every dim is split, alone and beside another."""
    splits = {dim for strategy in legal(case, PAIR) for dim, _ in strategy.splits}
    assert splits == set(case.operator.dims().splittable)
