"""Every operator kind: right gradients, no wrong and no missing rule about layouts, consistent work.

Layouts are checked the way DTensor validates its strategies: every assignment of the axes of a 2 x 2 mesh to
the operator's dims is computed on four ranks and compared with one device, those that ``dims`` allows and
those that it refuses.
"""

from __future__ import annotations

import math
from dataclasses import fields

import numpy as np
import pytest

from simcluster.layout import Strategy
from simcluster.work import DType, Kernel
from tests.contracts.operator_case import WHOLE, type_of
from tests.contracts.operator_cases import cases, cases_of, registered
from tests.contracts.operator_mesh import (
    MESH,
    RANKS,
    allowed,
    coordinate,
    differences,
    differentiated,
    extents,
    fits,
    on_ranks,
    subsets,
)

every_case = pytest.mark.parametrize("case", cases(), ids=str)
recorded = pytest.mark.parametrize("case", [case for case in cases() if case.live is not None], ids=str)


def test_every_kind_has_a_case():
    for kind in registered():
        assert cases_of(kind)
    assert {case.operator.kind for case in cases()} == set(registered())


def test_a_kind_without_a_case_is_told_where_to_write_one():
    with pytest.raises(
        AssertionError, match=r"'conv2d' has no case: add one to _CASES in .*operator_cases.py"
    ):
        cases_of("conv2d")


@every_case
def test_an_operator_is_a_value(case):
    """Blocks, memos and codes compare and hash operators."""
    again = type(case.operator)(*(getattr(case.operator, each.name) for each in fields(case.operator)))
    assert again == case.operator
    assert hash(again) == hash(case.operator)
    assert case.operator.family


# -- gradients -------------------------------------------------------------------------------------------


def gradient_values(case, tape, upstream):
    values = {f"in{index}": array for index, array in enumerate(case.inputs)}
    values |= {f"out{index}": array for index, array in enumerate(case.operator.evaluate(case.inputs, WHOLE))}
    values |= {f"grad{index}": array for index, array in upstream.items()}
    for operator, inputs, outputs in tape.emitted:
        values.update(zip(outputs, operator.evaluate([values[name] for name in inputs], WHOLE), strict=True))
    return values


@recorded
def test_gradients_agree_with_finite_differences(case):
    whole = case.operator.evaluate(case.inputs, WHOLE)
    for live in subsets(case.live):
        tape, found = differentiated(case, live=live)
        rng = np.random.default_rng(1)
        upstream = {i: np.ones(()) if case.loss else rng.standard_normal(whole[i].shape) for i in live}
        values = gradient_values(case, tape, upstream)

        def loss(arrays, upstream=upstream):
            outputs = case.operator.evaluate(arrays, WHOLE)
            return sum(float((outputs[index] * weight).sum()) for index, weight in upstream.items())

        for index in case.floating:
            if found[index] is None:
                gradient = np.zeros_like(case.inputs[index])
            else:
                gradient = values[found[index]]
            assert gradient.shape == case.inputs[index].shape
            for direction in directions(gradient.shape, rng):
                slope = central_difference(loss, case.inputs, index, direction)
                assert (gradient * direction).sum() == pytest.approx(slope, rel=1e-6, abs=1e-7), index


def directions(shape, rng):
    """Random ones, and some elements one by one."""
    yield from rng.standard_normal((3, *shape))
    size = math.prod(shape)
    for element in rng.permutation(size)[:12]:
        unit = np.zeros(size)
        unit[element] = 1
        yield unit.reshape(shape)


def central_difference(loss, arrays, index, direction, step=1e-5):
    def at(distance):
        moved = [*arrays]
        moved[index] = arrays[index] + distance * direction
        return loss(moved)

    return (at(step) - at(-step)) / (2 * step)


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
                assert found[index] is None or found[index] in tape.types


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
        differentiated(case, live=())


@recorded
def test_a_gradient_has_the_dims_of_what_it_is_the_gradient_of(case):
    """The sharder gives gradient operators their forward operator's strategy by dim name."""
    dims = case.operator.dims()
    tape, found = differentiated(case)
    names = {f"in{index}": each for index, each in enumerate(dims.inputs)}
    names |= {f"out{index}": each for index, each in enumerate(dims.outputs)}
    names |= {f"grad{index}": each for index, each in enumerate(dims.outputs)}
    splittable = set(dims.splittable)
    for split in subsets([dim for dim, _ in dims.whole]):
        if case.operator.decompose(frozenset(split)) is not None:
            splittable.update(split)
    for operator, inputs, outputs in tape.emitted:
        own = operator.dims()
        assert [names[name] for name in inputs] == list(own.inputs), operator.kind
        names.update(zip(outputs, own.outputs, strict=True))
        assert set(own.names) <= set(dims.names)
        assert splittable.intersection(own.names) <= set(own.splittable), operator.kind
    for index, name in enumerate(found):
        if name is not None:
            assert names[name] == dims.inputs[index]
            assert tape.types[name].shape == case.types[index].shape


# -- layouts: no wrong rule ------------------------------------------------------------------------------


@every_case
def test_every_allowed_layout_gives_the_values_of_one_device(case):
    expected = case.operator.evaluate(case.inputs, WHOLE)
    dims = case.operator.dims()
    assert dims.splittable or case.operator.decompose(frozenset(dims.names)) or not dims.names
    wrong = []
    for strategy in allowed(dims.splittable):
        assert fits(strategy, extents(case.operator, case.inputs)), (
            f"{strategy}: choose sizes that divide by 4"
        )
        wrong += differences(case.operator, strategy, case.inputs, expected)
    assert not wrong


@every_case
def test_dims_name_every_dim_of_every_operand(case):
    dims = case.operator.dims()
    outputs = case.operator.infer(case.types)
    assert [len(names) for names in dims.inputs] == [len(kind.shape) for kind in case.types]
    assert [len(names) for names in dims.outputs] == [len(kind.shape) for kind in outputs]
    extent = extents(case.operator, case.inputs)
    for names, kind in zip(dims.outputs, outputs, strict=True):
        assert tuple(extent[name] for name in names) == kind.shape
    for dim, reason in dims.whole:
        assert dim in dims.names
        assert reason
    for members in dims.linear:
        assert members <= set(case.floating)


# -- layouts: no missing rule ----------------------------------------------------------------------------


@every_case
def test_no_dim_is_declared_whole_that_could_be_split(case):
    """A dim is missing if splitting it, alone and beside every other, gives the right values."""
    dims = case.operator.dims()
    expected = case.operator.evaluate(case.inputs, WHOLE)
    missing = set()
    for dim, _ in dims.whole:
        if dim in case.odd or case.operator.decompose(frozenset({dim})) is not None:
            continue
        others = [other for other in dims.splittable if other != dim]
        strategies = [Strategy.of({dim: ("a",)})]
        strategies += [Strategy.of({dim: ("a",), other: ("b",)}) for other in others]
        assert fits(strategies[0], extents(case.operator, case.inputs)), f"{dim}: choose an even size"
        if not any(splits_wrongly(case, strategy, expected) for strategy in strategies):
            missing.add(dim)
    assert missing == set(case.unsplit)


def splits_wrongly(case, strategy, expected) -> bool:
    try:
        with np.errstate(all="ignore"):
            return bool(differences(case.operator, strategy, case.inputs, expected))
    except (ValueError, IndexError):
        return True


def is_linear(case, members) -> bool:
    """Whether the operator is linear in these inputs together, at three random points."""
    operator, inputs = case.operator, case.inputs
    rng = np.random.default_rng(3)

    def value(scales):
        arrays = [
            sum(scale * term for scale, term in zip(scales, terms[index], strict=True))
            if index in members
            else array
            for index, array in enumerate(inputs)
        ]
        with np.errstate(all="ignore"):
            return operator.evaluate(arrays, WHOLE)

    for _ in range(3):
        terms = {index: (rng.standard_normal(inputs[index].shape), inputs[index]) for index in members}
        both, one, two = value((2.0, -3.0)), value((1.0, 0.0)), value((0.0, 1.0))
        for whole, first, second in zip(both, one, two, strict=True):
            if not np.allclose(whole, 2 * first - 3 * second, rtol=1e-7, atol=1e-9):
                return False
    return True


def matters(case, index) -> bool:
    """Whether the values depend on an input, which may be read for its shape only."""
    arrays = [*case.inputs]
    arrays[index] = arrays[index] + 1.0
    before, after = (case.operator.evaluate(each, WHOLE) for each in (case.inputs, arrays))
    return not all(map(np.array_equal, before, after))


@every_case
def test_every_linearity_is_declared(case):
    """Every largest set of jointly linear inputs is declared, or listed with a reason."""
    inputs = [index for index in case.floating if matters(case, index)]
    found = [frozenset(chosen) for chosen in subsets(inputs) if is_linear(case, chosen)]
    largest = {members for members in found if not any(members < other for other in found)}
    declared = set(case.operator.dims().linear)
    assert declared <= largest, "a declared set is not linear, or not as large as it could be"
    assert largest - declared == set(case.nonlinear)


# -- partial sums ----------------------------------------------------------------------------------------


def addends(whole, axis, rng):
    """A whole array per rank; along ``axis`` they add up to ``whole``."""
    first = rng.standard_normal(whole.shape)
    return [whole - first if coordinate(rank, axis) else first for rank in RANKS]


@every_case
def test_partial_sums_pass_through_linear_sets(case):
    dims = case.operator.dims()
    expected = case.operator.evaluate(case.inputs, WHOLE)
    rng = np.random.default_rng(5)
    wrong = []
    for members in dims.linear:
        for partial in map(frozenset, subsets(sorted(members))):
            for strategy in allowed(dims.splittable, most=1):
                axis = "b" if any("a" in axes for _, axes in strategy.splits) else "a"
                joining = dims.passes(axis, partial, strategy)
                assert joining is not None
                assert partial | joining in dims.linear
                assert not partial & joining
                inputs = [
                    addends(array, axis, rng) if index in partial else array
                    for index, array in enumerate(case.inputs)
                ]
                masked = [(index, (axis,)) for index in joining]
                wrong += differences(case.operator, strategy, inputs, expected, (axis,), masked)
    assert not wrong


@every_case
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


def decomposed():
    for case in cases():
        for split in subsets([dim for dim, _ in case.operator.dims().whole]):
            if case.operator.decompose(frozenset(split)) is not None:
                yield pytest.param(case, split, id=f"{case.name}-{'+'.join(split)}")


@pytest.mark.parametrize(("case", "split"), list(decomposed()))
def test_a_decomposition_is_the_operator(case, split):
    operator = case.operator
    dims = operator.dims()
    parts = operator.decompose(frozenset(split)).parts
    assert len({suffix for suffix, *_ in parts}) == len(parts)
    expected = operator.evaluate(case.inputs, WHOLE)
    for strategy in allowed((*dims.splittable, *split)):
        values = {f"in{index}": array for index, array in enumerate(case.inputs)}
        names = {f"in{index}": each for index, each in enumerate(dims.inputs)}
        types = {f"in{index}": kind for index, kind in enumerate(case.types)}
        for _, each, inputs, outputs in parts:
            own = each.dims()
            assert [names[name] for name in inputs] == list(own.inputs)
            assert not set(split) & {dim for dim, _ in own.whole}
            chosen = Strategy(tuple((dim, axes) for dim, axes in strategy.splits if dim in own.names))
            arrays = [values[name] for name in inputs]
            whole = each.evaluate(arrays, WHOLE)
            assert not differences(each, chosen, arrays, whole)
            values.update(zip(outputs, whole, strict=True))
            names.update(zip(outputs, own.outputs, strict=True))
            types.update(zip(outputs, each.infer([types[name] for name in inputs]), strict=True))
        for index, (want, kind) in enumerate(zip(expected, operator.infer(case.types), strict=True)):
            assert np.allclose(values[f"out{index}"], want, rtol=1e-12)
            assert names[f"out{index}"] == dims.outputs[index]
            assert types[f"out{index}"] == kind


@every_case
def test_only_unsplittable_dims_are_decomposed(case):
    dims = case.operator.dims()
    assert case.operator.decompose(frozenset()) is None
    for dim in dims.splittable:
        assert case.operator.decompose(frozenset({dim})) is None
    assert case.operator.decompose(frozenset({"no such dim"})) is None


# -- shapes and work -------------------------------------------------------------------------------------


def local_types(types, layouts):
    return [
        type(kind)(layout.local_shape(kind.shape, MESH), kind.dtype)
        for kind, layout in zip(types, layouts, strict=True)
    ]


@every_case
def test_infer_agrees_with_evaluate_on_whole_and_local_shapes(case):
    operator = case.operator
    dims = operator.dims()
    kinds = operator.infer(case.types)
    whole = operator.evaluate(case.inputs, WHOLE)
    assert [kind.shape for kind in kinds] == [array.shape for array in whole]
    assert [kind.dtype.is_float for kind in kinds] == [type_of(array).dtype.is_float for array in whole]
    for strategy in allowed(dims.splittable):
        inferred = operator.infer(local_types(case.types, dims.input_layouts(strategy)))
        read = Strategy(tuple(each for each in strategy.splits if any(each[0] in x for x in dims.inputs)))
        assert list(inferred) == local_types(kinds, dims.output_layouts(read))
        local = local_types(kinds, dims.output_layouts(strategy))
        for made in on_ranks(operator, strategy, case.inputs):
            assert [array.shape for array in made] == [kind.shape for kind in local]


@every_case
def test_values_keep_the_precision_of_the_inputs(case):
    lower = [array.astype(np.float32) if array.dtype.kind == "f" else array for array in case.inputs]
    kinds = case.operator.infer(case.types)
    stored = {DType.UINT8: np.uint8, DType.INT64: np.int64}
    for index, (array, kind) in enumerate(zip(case.operator.evaluate(lower, WHOLE), kinds, strict=True)):
        assert array.dtype == stored.get(kind.dtype, np.float32), f"output {index}"


@every_case
def test_values_are_deterministic(case):
    first, second = (case.operator.evaluate(case.inputs, WHOLE) for _ in range(2))
    for one, two in zip(first, second, strict=True):
        assert np.array_equal(one, two)
        assert np.isfinite(one).all()


@every_case
def test_work_is_finite_positive_and_deterministic(case):
    dims = case.operator.dims()
    for strategy in allowed(dims.splittable):
        inputs = local_types(case.types, dims.input_layouts(strategy))
        outputs = case.operator.infer(inputs)
        works = case.operator.work(inputs, outputs)
        assert works == case.operator.work(inputs, outputs)
        assert works
        for work in works:
            assert work.dtype.is_float
            for number in (work.flops, work.bytes_read, work.bytes_written, *dict(work.sizes).values()):
                assert isinstance(number, int)
            assert min(work.flops, work.bytes_read, work.bytes_written) > 0
            assert all(size > 0 for name, size in work.sizes if name not in ("causal", "backward"))


@every_case
def test_a_kernel_moves_at_least_its_operands(case):
    outputs = case.operator.infer(case.types)
    works = case.operator.work(case.types, outputs)
    read = sum(kind.num_bytes for index, kind in enumerate(case.types) if index not in case.reads_part)
    written = sum(kind.num_bytes for index, kind in enumerate(outputs) if index not in case.writes_part)
    assert sum(work.bytes_read for work in works) >= read
    assert sum(work.bytes_written for work in works) >= written


@every_case
def test_adding_into_a_buffer_reads_it_too(case):
    outputs = case.operator.infer(case.types)
    plain, adding = (case.operator.work(case.types, outputs, accumulate=each) for each in (False, True))
    for before, after in zip(plain, adding, strict=True):
        assert after.flops == before.flops
        assert after.bytes_written == before.bytes_written
        assert before.bytes_read <= after.bytes_read <= before.bytes_read + before.bytes_written


def products(case) -> bool:
    works = case.operator.work(case.types, case.operator.infer(case.types))
    return all(work.kernel in (Kernel.GEMM, Kernel.ATTENTION) for work in works)


@pytest.mark.parametrize("case", [case for case in cases() if products(case)], ids=str)
def test_the_flops_of_a_pure_split_add_up(case):
    """A split is pure if every product has all the dims that are split, so that nothing is computed twice."""
    operator = case.operator
    dims = operator.dims()
    whole = operator.work(case.types, operator.infer(case.types))
    terms = [
        {name for index in term for name in dims.inputs[index]}
        for every in map(dims.terms_of, range(len(dims.outputs)))
        for term in every
    ]
    pure = 0
    for strategy in allowed(dims.splittable):
        inputs = local_types(case.types, dims.input_layouts(strategy))
        local = operator.work(inputs, operator.infer(inputs))
        ways = MESH.product([axis for _, axes in strategy.splits for axis in axes])
        total = ways * sum(work.flops for work in local)
        if all(dim in term for term in terms for dim, _ in strategy.splits):
            pure += 1
            assert total == sum(work.flops for work in whole), strategy
        else:
            assert total > sum(work.flops for work in whole), strategy
        assert [work.kernel for work in local] == [work.kernel for work in whole]
    assert pure > len(allowed(("one",)))


@pytest.mark.parametrize("case", [case for case in cases() if products(case)], ids=str)
def test_the_sizes_of_a_gemm_say_its_flops(case):
    for work in case.operator.work(case.types, case.operator.infer(case.types)):
        size = dict(work.sizes)
        if work.kernel is Kernel.GEMM:
            assert work.flops == 2 * size["b"] * size["m"] * size["n"] * size["k"]
        else:
            keys, values = size["d"], size.get("dv", size["d"])
            products_per_score = 3 * keys + 2 * values if size["backward"] else keys + values
            scores = size["b"] * size["h"] * size["sq"] * size["skv"]
            hidden = max(0, size["skv"] - case.operator.window) ** 2 if case.operator.window else 0
            scores = 2 * scores - (scores + size["b"] * size["h"] * hidden if size["causal"] else 0)
            assert work.flops == products_per_score * scores
