"""The contract of operators reports what it is there for: wrong rules, missing rules, work that is lost."""

from __future__ import annotations

from dataclasses import fields, replace

from tests.contracts.operator_cases import cases
from tests.contracts.operator_checks import (
    linear_sets,
    missing_splits,
    uneven_work,
    wrong_parts,
    wrong_sums,
    wrong_values,
)
from tests.contracts.operator_mesh import LARGE, PAIR, SMALL

MESHES = (*SMALL, *LARGE)


def named(name):
    return next(case for case in cases() if case.name == name)


def mutant(case, **overrides):
    """The case with methods of its operator replaced."""
    operator = case.operator
    made = type(f"Mutant{type(operator).__name__}", (type(operator),), {"__slots__": (), **overrides})
    values = [getattr(operator, each.name) for each in fields(operator)]
    return replace(case, operator=made(*values))


def with_dims(case, **changes):
    """The case with other facts about its dims."""
    dims = replace(case.operator.dims(), **changes)
    return mutant(case, dims=lambda self: dims)


def wrong(case, ranks):
    return wrong_values(case, ranks, ranks.legal(case.operator, case.operator.dims().splittable, case.inputs))


def test_a_split_through_an_inner_sum_is_wrong():
    for ranks in MESHES:
        if any(size <= 4 for _, size in ranks.mesh.axes):
            assert wrong(with_dims(named("softmax both ways"), unsplittable=()), ranks)


def test_a_wrong_reduction_is_wrong():
    for ranks in MESHES:
        assert wrong(with_dims(named("sum_to"), reduction="max"), ranks)


def test_a_shard_that_forgets_where_it_lies_is_wrong():
    dropout = named("dropout")
    evaluate = type(dropout.operator).evaluate

    def forgetful(self, inputs, region):
        return evaluate(self, inputs, replace(region, starts={}))

    for ranks in MESHES:
        assert wrong(mutant(dropout, evaluate=forgetful), ranks)


def test_a_gradient_that_is_wrong_on_shards_is_wrong():
    """The forward operator alone would pass."""
    embedding = named("embedding")
    gradient = type(embedding.operator).gradient

    class Tape:
        def __init__(self, tape):
            self.tape = tape

        def needs_gradient(self, value):
            return self.tape.needs_gradient(value)

        def emit(self, suffix, operator, inputs):
            dims = replace(operator.dims(), reduction="max")
            other = type("Other", (type(operator),), {"__slots__": (), "dims": lambda self: dims})
            return self.tape.emit(suffix, other(), inputs)

    def recorded(self, tape, *rest):
        return gradient(self, Tape(tape), *rest)

    found = wrong(mutant(embedding, gradient=recorded), PAIR)
    assert found
    assert all("embedding_grad" in each for each in found)


def test_a_dim_that_could_be_split_is_missing():
    assert missing_splits(with_dims(named("gelu"), unsplittable=(("seq", "for no reason"),))) == {"seq"}


def test_a_linearity_is_missing_or_too_much():
    matmul, gelu = named("matmul"), named("gelu")
    assert linear_sets(matmul) == {frozenset({0}), frozenset({1})}
    assert linear_sets(gelu) == set()
    assert wrong_sums(with_dims(gelu, linear=(frozenset({0}),)), PAIR)
    assert not wrong_sums(matmul, PAIR)


def test_a_bias_added_by_every_rank_is_wrong():
    """Jointly linear, but the bias would be counted once per rank if it joined without being masked."""
    bias = with_dims(named("bias"), linear=(frozenset({0}), frozenset({1})))
    assert wrong_sums(bias, PAIR)


def test_primitives_that_are_something_else_are_wrong():
    loss = named("cross_entropy")
    decompose = type(loss.operator).decompose

    def other(self, split):
        found = decompose(self, split)
        return found and replace(found, parts=tuple(_scaled(part) for part in found.parts))

    def _scaled(part):
        suffix, operator, inputs, outputs = part
        return (suffix, replace(operator, scale=1.0) if suffix == "join" else operator, inputs, outputs)

    ranks = PAIR
    strategies = ranks.legal(loss.operator, ("batch", "vocab"), loss.inputs)
    assert not wrong_parts(loss, ranks, strategies)
    assert wrong_parts(mutant(loss, decompose=other), ranks, strategies)


def test_work_that_is_lost_or_done_twice_is_uneven():
    case = named("matmul")
    work = type(case.operator).work
    strategies = PAIR.legal(case.operator, case.operator.dims().splittable, case.inputs)

    def halved(self, inputs, outputs, *, accumulate=False):
        local = work(self, inputs, outputs, accumulate=accumulate)
        is_whole = tuple(inputs) == case.types
        return local if is_whole else tuple(replace(each, flops=each.flops // 2) for each in local)

    assert not uneven_work(case, PAIR, strategies)
    assert uneven_work(mutant(case, work=halved), PAIR, strategies)
    norm = named("rms_norm_grad")
    assert not uneven_work(norm, PAIR, PAIR.legal(norm.operator, ("batch", "seq"), norm.inputs))
    gelu = named("gelu")
    original = type(gelu.operator).work

    def repeated(self, inputs, outputs, *, accumulate=False):
        return original(self, gelu.types, self.infer(gelu.types), accumulate=accumulate)

    assert uneven_work(mutant(gelu, work=repeated), PAIR, PAIR.legal(gelu.operator, ("seq",), gelu.inputs))
