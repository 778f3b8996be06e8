"""Every operator kind: work that is finite, positive, and no more on all ranks than the split calls for."""

from __future__ import annotations

import pytest

from simcluster.work import Kernel
from tests.contracts.operator_cases import cases, quick_cases
from tests.contracts.operator_checks import local_types, uneven_work
from tests.contracts.operator_mesh import LARGE, PAIR, SMALL, allowed

every_case = pytest.mark.parametrize("case", cases(), ids=str)
one_of_each_kind = quick_cases(cases())


def legal(case, ranks):
    found = ranks.legal(case.operator, case.operator.dims().splittable, case.inputs, case.resized)
    return ranks.different(found)


@pytest.mark.parametrize("meshes", [SMALL, pytest.param(LARGE, marks=pytest.mark.thorough)], ids=["4", "8"])
@one_of_each_kind
def test_the_work_of_all_ranks_adds_up(case, meshes):
    wrong = []
    for ranks in meshes:
        wrong += uneven_work(case, ranks, legal(case, ranks))
    assert not wrong


@one_of_each_kind
def test_work_is_finite_positive_and_deterministic(case):
    dims = case.operator.dims()
    for strategy in legal(case, PAIR):
        inputs = local_types(case.types, dims.input_layouts(strategy), PAIR)
        outputs = case.operator.infer(inputs)
        works = case.operator.work(inputs, outputs)
        assert works == case.operator.work(inputs, outputs)
        assert bool(works) != case.views
        for work in works:
            assert work.dtype.is_float
            for number in (work.flops, work.bytes_read, work.bytes_written, *dict(work.sizes).values()):
                assert isinstance(number, int)
            assert min(work.flops, work.bytes_read, work.bytes_written) > 0
            assert all(size > 0 for name, size in work.sizes if name not in ("causal", "backward"))


@every_case
def test_a_kernel_moves_at_least_its_operands(case):
    if case.views:
        return
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
    if case.views and (len(case.types), len(outputs)) != (1, 1):
        # Nothing adds to constants, nor to what is cut and put together.
        return
    if case.handed_on:
        assert plain == adding == ()
        return
    if case.views:
        (work,) = adding
        assert work.bytes_written == outputs[0].num_bytes
        assert work.bytes_read == case.types[0].num_bytes + outputs[0].num_bytes
        return
    for before, after in zip(plain, adding, strict=True):
        assert after.flops == before.flops
        assert after.bytes_written == before.bytes_written
        assert before.bytes_read <= after.bytes_read <= before.bytes_read + before.bytes_written


def products(case) -> bool:
    works = case.operator.work(case.types, case.operator.infer(case.types))
    return bool(works) and all(work.kernel in (Kernel.GEMM, Kernel.CONV, Kernel.ATTENTION) for work in works)


@quick_cases(case for case in cases() if products(case))
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
    for ranks in (*SMALL, *LARGE):
        for strategy in legal(case, ranks):
            inputs = local_types(case.types, dims.input_layouts(strategy), ranks)
            local = operator.work(inputs, operator.infer(inputs))
            ways = ranks.ways([axis for _, axes in strategy.splits for axis in axes])
            total = ways * sum(work.flops for work in local)
            if all(dim in term for term in terms for dim, _ in strategy.splits):
                pure += 1
                assert total == sum(work.flops for work in whole), strategy
            else:
                assert total > sum(work.flops for work in whole), strategy
    assert pure > len(allowed(("one",), PAIR.mesh))


@quick_cases(case for case in cases() if products(case))
def test_the_sizes_of_a_gemm_say_its_flops(case):
    for work in case.operator.work(case.types, case.operator.infer(case.types)):
        size = dict(work.sizes)
        if work.kernel is not Kernel.ATTENTION:
            assert work.flops == 2 * size["b"] * size["m"] * size["n"] * size["k"]
        else:
            keys, values = size["d"], size.get("dv", size["d"])
            products_per_score = 3 * keys + 2 * values if size["backward"] else keys + values
            scores = size["b"] * size["h"] * size["sq"] * size["skv"]
            window = getattr(case.operator, "window", 0)
            hidden = max(0, size["skv"] - window) ** 2 if window else 0
            scores = 2 * scores - (scores + size["b"] * size["h"] * hidden if size["causal"] else 0)
            if before := size.get("before", 0):
                # What whole sequences up to here have, less what those before this slice have.
                window = case.operator.whole.window or size["skv"]
                pairs = [keys * keys - max(0, keys - window) ** 2 for keys in (size["skv"], before)]
                scores = size["b"] * size["h"] * (pairs[0] - pairs[1])
            assert work.flops == products_per_score * scores
