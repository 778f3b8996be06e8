"""What is asked of one case of an operator; each check gives its findings, none if all is well."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from simcluster.layout import Strategy
from tests.contracts.operator_case import WHOLE
from tests.contracts.operator_mesh import PAIR, Ranks, extents
from tests.contracts.operator_tape import differentiated, subsets

# -- values on shards ------------------------------------------------------------------------------------


def gradient_values(case, tape, upstream):
    """The values of everything that a gradient records, from whole inputs."""
    values = {f"in{index}": array for index, array in enumerate(case.inputs)}
    values |= {f"out{index}": array for index, array in enumerate(case.operator.evaluate(case.inputs, WHOLE))}
    values |= {f"grad{index}": array for index, array in upstream.items()}
    for operator, inputs, outputs in tape.emitted:
        values.update(zip(outputs, operator.evaluate([values[name] for name in inputs], WHOLE), strict=True))
    return values


def upstream_of(case, live, rng):
    """A gradient for every output in ``live``."""
    whole = case.operator.evaluate(case.inputs, WHOLE)
    return {i: np.ones(()) if case.loss else rng.standard_normal(whole[i].shape) for i in live}


def inherited(operator, strategy: Strategy) -> Strategy:
    """A forward operator's strategy as far as it concerns an operator of its gradient."""
    names = operator.dims().names
    return Strategy(tuple(each for each in strategy.splits if each[0] in names))


def wrong_values(case, ranks: Ranks, strategies) -> list[str]:
    """Where the operator's values on shards, or those of its gradient, are not those of one device."""
    operator = case.operator
    expected = operator.evaluate(case.inputs, WHOLE)
    found = []
    for strategy in strategies:
        found += ranks.differences(operator, strategy, case.inputs, expected, resized=case.resized)
    if case.live is None:
        return found
    tape, _ = differentiated(case)
    values = gradient_values(case, tape, upstream_of(case, case.live, np.random.default_rng(1)))
    for each, inputs, outputs in tape.emitted:
        arrays, wanted = [values[name] for name in inputs], [values[name] for name in outputs]
        for strategy in dict.fromkeys(inherited(each, strategy) for strategy in strategies):
            found += ranks.differences(each, strategy, arrays, wanted, resized=case.resized)
    return found


# -- rules that are missing ------------------------------------------------------------------------------


def missing_splits(case) -> set[str]:
    """The dims declared whole whose split, alone and beside every other, gives the right values."""
    dims = case.operator.dims()
    expected = case.operator.evaluate(case.inputs, WHOLE)
    found = set()
    for dim, _ in dims.unsplittable:
        if dim in case.odd or case.operator.decompose(frozenset({dim})) is not None:
            continue
        others = [other for other in dims.splittable if other != dim]
        strategies = [Strategy.of({dim: ("a",)})]
        strategies += [Strategy.of({dim: ("a",), other: ("b",)}) for other in others]
        extent = extents(case.operator, case.inputs, case.resized)
        assert PAIR.fits(strategies[0], extent), f"{dim}: choose an even size"
        if not any(_splits_wrongly(case, strategy, expected) for strategy in strategies):
            found.add(dim)
    return found


def _splits_wrongly(case, strategy, expected) -> bool:
    try:
        with np.errstate(all="ignore"):
            return bool(
                PAIR.differences(case.operator, strategy, case.inputs, expected, resized=case.resized)
            )
    except (ValueError, IndexError):
        return True


def linear_sets(case) -> set[frozenset[int]]:
    """The largest sets of inputs in which the operator is jointly linear, of those its values depend on."""
    inputs = [index for index in case.floating if _matters(case, index)]
    found = [frozenset(chosen) for chosen in subsets(inputs) if _is_linear(case, chosen)]
    return {members for members in found if not any(members < other for other in found)}


def _is_linear(case, members) -> bool:
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


def _matters(case, index) -> bool:
    """Whether the values depend on an input, which may be read for its shape only."""
    arrays = [*case.inputs]
    arrays[index] = arrays[index] + 1.0
    with np.errstate(all="ignore"):
        before, after = (case.operator.evaluate(each, WHOLE) for each in (case.inputs, arrays))
    return not all(map(np.array_equal, before, after))


# -- partial sums ----------------------------------------------------------------------------------------


def wrong_sums(case, ranks: Ranks, choose=lambda strategies, axis: strategies) -> list[str]:
    """Where partial sums over one axis do not pass through a declared linear set, the others splitting.

    ``choose`` picks of the strategies beside a partial axis those that are tried.
    """
    dims = case.operator.dims()
    expected = case.operator.evaluate(case.inputs, WHOLE)
    rng = np.random.default_rng(5)
    found = []
    for axis in ranks.mesh.names:
        strategies = ranks.legal(case.operator, dims.splittable, case.inputs, case.resized, without=axis)
        strategies = choose(strategies, axis)
        for members in dims.linear:
            for partial in map(frozenset, subsets(sorted(members))):
                inputs = [
                    _addends(array, ranks, axis, rng) if index in partial else array
                    for index, array in enumerate(case.inputs)
                ]
                for strategy in strategies:
                    joining = dims.passes(axis, partial, strategy)
                    assert joining is not None
                    assert partial | joining in dims.linear
                    assert not partial & joining
                    masked = [(index, (axis,)) for index in joining]
                    found += ranks.differences(
                        case.operator, strategy, inputs, expected, (axis,), masked, case.resized
                    )
    return found


def _addends(whole, ranks: Ranks, axis, rng):
    """A whole array per rank; along ``axis`` they add up to ``whole``."""
    terms = rng.standard_normal((dict(ranks.mesh.axes)[axis], *whole.shape))
    terms[0] = whole - terms[1:].sum(axis=0)
    return [terms[each[axis]] for each in ranks.coordinates]


# -- decompositions --------------------------------------------------------------------------------------


def wrong_parts(case, ranks: Ranks, strategies) -> list[str]:
    """Where primitives of the operator, or of its gradient, are wrong on shards.

    The strategies split dims that the operator itself cannot split.
    """
    inputs = {f"in{index}": array for index, array in enumerate(case.inputs)}
    steps = [(case.operator, tuple(inputs))]
    if case.live is not None:
        tape, _ = differentiated(case)
        inputs = gradient_values(case, tape, upstream_of(case, case.live, np.random.default_rng(1)))
        steps += [(operator, reads) for operator, reads, _ in tape.emitted]
    found = []
    for strategy in strategies:
        for operator, reads in steps:
            arrays = [inputs[name] for name in reads]
            found += _wrong_primitives(operator, arrays, ranks, strategy, case.resized)
    return found


def _wrong_primitives(operator, arrays, ranks: Ranks, strategy, resized) -> list[str]:
    own = inherited(operator, strategy)
    barred = {dim for dim, _ in operator.dims().unsplittable}
    split = frozenset(dim for dim, _ in own.splits if dim in barred)
    if not split:
        whole = operator.evaluate(arrays, WHOLE)
        return ranks.differences(operator, own, arrays, whole, resized=resized)
    values = {f"in{index}": array for index, array in enumerate(arrays)}
    names = {f"in{index}": each for index, each in enumerate(operator.dims().inputs)}
    found = []
    for _, each, reads, outputs in operator.decompose(split).parts:
        for name, needed in zip(reads, each.dims().inputs, strict=True):
            # What a primitive needs whole, under names of its own, is gathered for it and cut behind it.
            assert names[name] == needed or split.isdisjoint(names[name]) or split.isdisjoint(needed)
        read = [values[name] for name in reads]
        whole = each.evaluate(read, WHOLE)
        found += ranks.differences(each, inherited(each, strategy), read, whole, resized=resized)
        values.update(zip(outputs, whole, strict=True))
        names.update(zip(outputs, each.dims().outputs, strict=True))
    for index, want in enumerate(operator.evaluate(arrays, WHOLE)):
        if not np.allclose(values[f"out{index}"], want, rtol=1e-12, atol=1e-14):
            found.append(f"the primitives of {operator.kind} give another output {index}")
    return found


# -- work ------------------------------------------------------------------------------------------------


def local_types(types, layouts, ranks: Ranks):
    """The types of a rank's parts, halos aside."""
    return [
        type(kind)(replace(layout, halos=()).local_shape(kind.shape, ranks.mesh), kind.dtype)
        for kind, layout in zip(types, layouts, strict=True)
    ]


def uneven_work(case, ranks: Ranks, strategies) -> list[str]:
    """Where the ranks' FLOPs and bytes do not add up to those of one device.

    They add up exactly where every operand has every dim that is split. Where one lacks such a dim, ranks
    read or compute it again: they do no less together than one device. A kernel for each of several matrices
    is launched as often less.
    """
    operator, dims = case.operator, case.operator.dims()
    whole = operator.work(case.types, operator.infer(case.types))
    operands = [
        set(names)
        for touched, listed in (
            (case.reads_part - case.read_again, dims.inputs),
            (case.writes_part, dims.outputs),
        )
        for index, names in enumerate(listed)
        if index not in touched
    ]
    found = []
    for strategy in strategies:
        kinds = local_types(operator.infer(case.types), dims.output_layouts(strategy), ranks)
        local = operator.work(local_types(case.types, dims.input_layouts(strategy), ranks), kinds)
        times = len(whole) // len(local) if local else 1
        if [work.kernel for work in local] * times != [work.kernel for work in whole]:
            found.append(f"{strategy}: other kernels on {ranks} ranks")
            continue
        ways = ranks.ways([axis for _, axes in strategy.splits for axis in axes])
        pure = all(dim in names for names in operands for dim, _ in strategy.splits)
        for index, one in enumerate(local):
            for what in ("flops", "bytes_read", "bytes_written"):
                total = ways * getattr(one, what)
                wanted = sum(getattr(work, what) for work in whole[index :: len(local)])
                if total < wanted or (pure and total != wanted):
                    found.append(
                        f"{strategy}: {ways} x {what} {getattr(one, what)} = {total}, one device {wanted}"
                    )
    return found
