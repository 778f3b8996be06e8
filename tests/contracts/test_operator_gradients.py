"""Every operator kind: gradients that are right, that somebody wants, and that can inherit a strategy."""

from __future__ import annotations

import pytest

from simcluster.model import ONE
from tests.contracts.operator_cases import cases, quick_cases
from tests.contracts.operator_slopes import Slopes
from tests.contracts.operator_tape import differentiated, subsets

RECORDED = [case for case in cases() if case.live is not None]
recorded = pytest.mark.parametrize("case", RECORDED, ids=str)


@quick_cases(RECORDED)
def test_gradients_agree_with_finite_differences(case):
    for live in subsets(case.live):
        assert not Slopes.of(case, live).wrong(*differentiated(case, live=live))


@recorded
def test_every_number_gets_a_gradient_and_no_id_does(case):
    _, found = differentiated(case)
    given = {index for index, name in enumerate(found) if name is not None}
    assert given == set(case.floating) - case.untrained


@recorded
def test_the_tape_records_only_what_somebody_wants(case):
    for needed in subsets(case.floating):
        for live in subsets(case.live):
            tape, found = differentiated(case, needed, live)
            wanted = {found[index] for index in needed if found[index] is not None}
            for operator, inputs, outputs in reversed(tape.emitted):
                assert wanted.intersection(outputs), f"{operator.kind} is recorded for nobody's sake"
                wanted.update(inputs)
            for index in needed:
                assert found[index] in (None, ONE) or found[index] in tape.types


@recorded
def test_nothing_is_recorded_where_no_gradient_comes_in(case):
    if case.loss:
        with pytest.raises(NotImplementedError, match="is the loss itself"):
            differentiated(case, live=())
        return
    tape, found = differentiated(case, live=())
    assert tape.emitted == []
    assert set(found) == {None}


@pytest.mark.parametrize("case", [case for case in cases() if case.live is None], ids=str)
def test_a_kind_without_a_gradient_says_so(case):
    with pytest.raises(NotImplementedError, match=f"{case.operator.kind} has no gradient"):
        differentiated(case, live=(0,))


@recorded
def test_a_gradient_has_the_dims_of_what_it_is_the_gradient_of(case):
    """The sharder gives gradient operators their forward operator's strategy by dim name."""
    dims = case.operator.dims()
    tape, found = differentiated(case)
    names = {f"in{index}": each for index, each in enumerate(dims.inputs)}
    names |= {f"out{index}": each for index, each in enumerate(dims.outputs)}
    names |= {f"grad{index}": each for index, each in enumerate(dims.outputs)}
    splittable = set(dims.splittable)
    for split in subsets([dim for dim, _ in dims.unsplittable]):
        if case.operator.decompose(frozenset(split)) is not None:
            splittable.update(split)
    for operator, inputs, outputs in tape.emitted:
        own = operator.dims()
        assert [names[name] for name in inputs] == list(own.inputs), operator.kind
        names.update(zip(outputs, own.outputs, strict=True))
        assert set(own.names) <= set(dims.names)
        barred = [dim for dim, _ in own.unsplittable if dim in splittable]
        assert not barred or operator.decompose(frozenset(barred)) is not None, operator.kind
    for index, name in enumerate(found):
        if name is not None:
            assert names[name] == dims.inputs[index]
            assert tape.types[name].shape == case.types[index].shape
