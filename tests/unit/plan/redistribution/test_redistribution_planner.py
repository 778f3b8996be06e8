from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from simcluster.errors import PlanError
from simcluster.layout import FLAT, Layout, Mesh, Movement, MovementKind, infer_mindspore_sequence, movements
from simcluster.model import TensorType
from simcluster.plan.redistribution.redistribution_planner import (
    RedistributionPlanner,
    collective_bytes,
    local_bytes,
    part_type,
)
from simcluster.work import DType
from tests.support.layout_arrays import check, divides, moved, part, spread, tensors

SHARE = {
    MovementKind.SLICE: 0,
    MovementKind.ALL_GATHER: 1,
    MovementKind.ALL_TO_ALL: 1,
    MovementKind.REDUCE_SCATTER: 1,
    MovementKind.ALL_REDUCE: 2,
}


def traffic(mesh: Mesh):
    """Bytes that a rank receives at least: (n - 1) / n of the buffer, twice for an all-reduce."""

    def cost(movement, size):
        ways = mesh.product(movement.axes)
        return SHARE[movement.kind] * size * (ways - 1) / ways

    return cost


def network(mesh: Mesh, latency: float):
    """Every axis has another bandwidth; a step starts with a latency and slices are copies."""

    def cost(movement, size):
        if movement.kind is MovementKind.SLICE:
            return size * 1e-3
        slowest = max(1 + mesh.names.index(axis) for axis in movement.axes)
        return latency + slowest * traffic(mesh)(movement, size)

    return cost


@st.composite
def journeys(draw, **options):
    """A tensor with a start and a target, which may still owe some of the start's reductions."""
    tensor = draw(tensors(2, **options))
    start, target = tensor.layouts
    left = [item for item in start.partial if item[0] not in target.axes]
    kept = draw(st.lists(st.sampled_from(left), unique=True)) if left else []
    return replace(tensor, layouts=(start, replace(target, partial=tuple(sorted(kept)))))


@st.composite
def routed(draw, **options):
    tensor = draw(journeys(**options))
    latency = draw(st.sampled_from([None, 0.0, 1.0, 100.0]))
    cost = traffic(tensor.mesh) if latency is None else network(tensor.mesh, latency)
    return tensor, RedistributionPlanner(tensor.mesh, cost, pads=options.get("uneven", False))


def kind_of(tensor) -> TensorType:
    return TensorType(tensor.whole.shape, DType.FP64)


def price(router: RedistributionPlanner, kind: TensorType, start: Layout, steps) -> float:
    """What a sequence of (movement, layout reached) costs."""
    total = 0.0
    for movement, reached in steps:
        before, after = (part_type(kind, layout, router.mesh) for layout in (start, reached))
        total += router.cost(movement, collective_bytes(movement, before, after, router.mesh))
        start = reached
    return total


def naive(start: Layout, target: Layout):
    """Reduce everything that is due, gather everything, and slice."""
    due = tuple(axis for axis in start.partial_axes if axis not in target.partial_axes)
    layout = start
    if due:
        layout = replace(layout, partial=target.partial)
        yield Movement(MovementKind.ALL_REDUCE, due), layout
    if layout.flat:
        axes, layout = layout.flat, replace(layout, flat=())
        yield Movement(MovementKind.ALL_GATHER, axes, FLAT), layout
    for dim in range(len(layout.dims)):
        layout, axes = replaced(layout, dim, ())
        if axes:
            yield Movement(MovementKind.ALL_GATHER, axes, dim), layout
    for dim, axes in enumerate(target.dims):
        layout, _ = replaced(layout, dim, axes)
        if axes:
            yield Movement(MovementKind.SLICE, axes, dim), layout
    if target.flat:
        yield Movement(MovementKind.SLICE, target.flat, FLAT), target


def replaced(layout: Layout, dim: int, axes):
    dims = list(layout.dims)
    before, dims[dim] = dims[dim], axes
    return replace(layout, dims=tuple(dims)), before


@settings(max_examples=80)
@given(routed())
def test_a_path_takes_every_rank_from_its_part_of_one_layout_to_that_of_the_other(drawn):
    tensor, router = drawn
    start, target = tensor.layouts
    kind = kind_of(tensor)
    cost, path = router.priced(kind, start, target)
    assert_arrives(tensor, path)
    assert cost == pytest.approx(price(router, kind, start, path))
    if start != target:
        *_, (_, last) = naive(start, target)
        assert last == target
        assert cost <= price(router, kind, start, naive(start, target)) * (1 + 1e-12)
    assert RedistributionPlanner(router.mesh, router.cost).path(kind, start, target) == path
    assert router.path(kind, start, target) is path or path == ()


@settings(max_examples=60)
@given(routed(uneven=True))
def test_a_path_does_so_where_sizes_do_not_divide_and_pads_with_zeros(drawn):
    tensor, router = drawn
    assert_arrives(tensor, router.path(kind_of(tensor), *tensor.layouts))


def assert_arrives(tensor, path):
    start, target = tensor.layouts
    arrays = spread(tensor, start)
    layout = start
    for movement, reached in path:
        assert (movement, reached) in movements(layout, target)
        arrays = moved(movement, reached, arrays, tensor)
        check(arrays, reached, tensor)
        layout = reached
    assert layout == target
    check(arrays, target, tensor)


@settings(max_examples=40)
@given(journeys(most_axes=3, flat=False))
def test_a_path_moves_at_least_what_a_rank_lacks(tensor):
    """What a rank must end with and does not hold, or holds only its own share of, has to arrive."""
    mesh, (start, target) = tensor.mesh, tensor.layouts
    router = RedistributionPlanner(mesh, traffic(mesh))
    due = [axis for axis in start.partial_axes if axis not in target.partial_axes]
    numbers = replace(tensor, whole=np.arange(1.0, tensor.whole.size + 1).reshape(tensor.whole.shape))
    lacking = 0
    for rank in range(mesh.num_ranks):
        want = part(numbers.whole, target.reduced, mesh, rank).ravel()
        have = [] if due else part(numbers.whole, start.reduced, mesh, rank).ravel()
        lacking = max(lacking, np.setdiff1d(want[want > 0], have).size)
    cost, _ = router.priced(kind_of(tensor), start, target)
    assert cost >= lacking * 8 * (1 - 1e-12)


def lacking(tensor) -> int:
    """Bytes that some rank must end with and does not hold in the beginning."""
    mesh, (start, target) = tensor.mesh, tensor.layouts
    numbers = np.arange(tensor.whole.size).reshape(tensor.whole.shape)
    return 8 * max(
        np.setdiff1d(part(numbers, target, mesh, rank), part(numbers, start, mesh, rank)).size
        for rank in range(mesh.num_ranks)
    )


@settings(max_examples=40)
@given(tensors(2, flat=False, partial=False), st.sampled_from([None, 0.0, 1.0, 100.0]))
def test_the_path_costs_at_most_what_mindspore_infers_and_at_least_what_is_lacking(tensor, latency):
    mesh, (start, target) = tensor.mesh, tensor.layouts
    kind = kind_of(tensor)
    cost = traffic(mesh) if latency is None else network(mesh, latency)
    for all_to_all in (True, False):
        shortest = RedistributionPlanner(mesh, cost, all_to_all=all_to_all)
        inferring = RedistributionPlanner(mesh, cost, infers=True, all_to_all=all_to_all)
        assert inferring.path(kind, start, target) == infer_mindspore_sequence(
            start, target, all_to_all=all_to_all
        )
        upper = inferring.priced(kind, start, target)[0]
        found, path = shortest.priced(kind, start, target)
        assert found <= upper * (1 + 1e-12)
        assert found >= (lacking(tensor) if latency is None else 0) * (1 - 1e-12)
        assert all_to_all or all(movement.kind is not MovementKind.ALL_TO_ALL for movement, _ in path)


@settings(max_examples=40)
@given(routed(most_axes=2))
def test_no_sequence_of_movements_is_cheaper(drawn):
    tensor, router = drawn
    start, target = tensor.layouts
    kind = kind_of(tensor)
    costs = {start: 0.0}
    changed = [start]
    while changed:
        layout = changed.pop()
        for movement, reached in movements(layout, target):
            if not divides(tensor.whole.shape, reached, tensor.mesh):
                continue
            spent = costs[layout] + price(router, kind, layout, [(movement, reached)])
            if spent < costs.get(reached, math.inf) - 1e-9:
                costs[reached] = spent
                changed.append(reached)
    assert router.priced(kind, start, target)[0] == pytest.approx(costs[target])


@settings(max_examples=12)
@given(tensors(2))
def test_from_a_layout_to_itself_there_is_nothing_to_do(tensor):
    for layout in tensor.layouts:
        router = RedistributionPlanner(tensor.mesh, traffic(tensor.mesh))
        assert router.priced(kind_of(tensor), layout, layout) == (0.0, ())


@settings(max_examples=12)
@given(tensors(2, most_axes=3), st.sampled_from(("sum", "max")), st.data())
def test_nothing_can_become_partial(tensor, how, data):
    start, target = tensor.layouts
    free = [axis for axis in tensor.mesh.names if axis not in (*target.axes, *start.partial_axes)]
    assume(free)
    target = replace(target, partial=((data.draw(st.sampled_from(free)), how),))
    with pytest.raises(PlanError, match="no sequence of collectives"):
        RedistributionPlanner(tensor.mesh, traffic(tensor.mesh)).path(kind_of(tensor), start, target)


def test_sizes_count_as_the_collectives_count_them():
    mesh = Mesh.of({"a": 4})
    small, large = (TensorType((size,), DType.UINT8) for size in (10, 40))
    assert collective_bytes(Movement(MovementKind.ALL_GATHER, ("a",)), small, large, mesh) == 40
    assert collective_bytes(Movement(MovementKind.SLICE, ("a",)), large, small, mesh) == 10
    assert collective_bytes(Movement(MovementKind.REDUCE_SCATTER, ("a",)), large, small, mesh) == 40
    assert collective_bytes(Movement(MovementKind.ALL_REDUCE, ("a",)), large, large, mesh) == 40
    exchanged = (TensorType(shape, DType.UINT8) for shape in ((4, 10), (16, 3)))
    # Of 10 columns over 4 ranks each gets 3, two of which are padding for one of them: 4 x 12 travel.
    assert collective_bytes(Movement(MovementKind.ALL_TO_ALL, ("a",), 0, 1), *exchanged, mesh) == 48


def test_padding_travels_too():
    """6 heads of 5 bytes over 4 ranks are 2 each: 8 x 5 bytes are gathered or scattered."""
    mesh, kind = Mesh.of({"a": 4}), TensorType((6, 5), DType.UINT8)
    split, whole = (part_type(kind, Layout((axes, ())), mesh) for axes in (("a",), ()))
    assert (split.shape, whole.shape) == ((2, 5), (6, 5))
    assert collective_bytes(Movement(MovementKind.ALL_GATHER, ("a",)), split, whole, mesh) == 40
    assert collective_bytes(Movement(MovementKind.REDUCE_SCATTER, ("a",)), whole, split, mesh) == 40
    assert collective_bytes(Movement(MovementKind.ALL_REDUCE, ("a",)), split, split, mesh) == 10


def test_without_leave_no_step_pads():
    mesh, kind = Mesh.of({"a": 4}), TensorType((6, 8), DType.UINT8)
    start, target = Layout((("a",), ())), Layout(((), ("a",)))
    with pytest.raises(PlanError, match="no sequence of collectives"):
        RedistributionPlanner(mesh, traffic(mesh)).path(kind, target, start)
    path = RedistributionPlanner(mesh, traffic(mesh), pads=True).path(kind, target, start)
    assert [movement.kind for movement, _ in path] == [MovementKind.ALL_TO_ALL]
    assert Movement(MovementKind.ALL_GATHER, ("a",)).num_bytes(10, 40, 4) == 40
    assert Movement(MovementKind.ALL_GATHER, ("a",)).num_bytes(3, 10, 4) == 12, "padding travels along"
    assert Movement(MovementKind.REDUCE_SCATTER, ("a",)).num_bytes(40, 10, 4) == 40
    assert Movement(MovementKind.REDUCE_SCATTER, ("a",)).num_bytes(10, 3, 4) == 12
    assert Movement(MovementKind.SLICE, ("a",)).num_bytes(40, 10, 4) == 10
    for kind in (MovementKind.ALL_REDUCE, MovementKind.ALL_TO_ALL):
        assert Movement(kind, ("a",)).num_bytes(40, 40, 4) == 40
    for kind in (MovementKind.NEIGHBOR_EXCHANGE, MovementKind.SHIFT):
        assert (
            Movement(kind, ("a",)).num_bytes(40, 56, 4) == Movement(kind, ("a",)).num_bytes(56, 40, 4) == 16
        )


def test_local_bytes_are_those_of_the_part():
    mesh = Mesh.of({"a": 2, "b": 2})
    kind = TensorType((4, 6), DType.BF16)
    assert local_bytes(kind, Layout((("a",), ("b",))), mesh) == 12
    assert local_bytes(kind, Layout(((), ()), flat=("a", "b")), mesh) == 12
    assert local_bytes(TensorType((5,), DType.FP32), Layout(((),), flat=("a", "b")), mesh) == 8


def test_a_partial_tensor_is_scattered_to_a_split_and_reduced_to_replicas():
    mesh = Mesh.of({"tensor": 4})
    router = RedistributionPlanner(mesh, traffic(mesh))
    kind = TensorType((8, 8), DType.FP32)
    partial = Layout(((), ()), (("tensor", "sum"),))
    for target, expected in (
        (Layout(((), ())), [MovementKind.ALL_REDUCE]),
        (Layout((("tensor",), ())), [MovementKind.REDUCE_SCATTER]),
        (Layout(((), ()), flat=("tensor",)), [MovementKind.REDUCE_SCATTER]),
    ):
        assert [movement.kind for movement, _ in router.path(kind, partial, target)] == expected


def test_dims_that_do_not_divide_are_gone_around():
    """6 rows divide over 2 and over 3 ranks, but not over 2 x 2."""
    mesh = Mesh.of({"a": 2, "b": 2})
    router = RedistributionPlanner(mesh, traffic(mesh))
    kind = TensorType((6, 4), DType.FP32)
    path = router.path(kind, Layout((("a",), ("b",))), Layout((("b",), ("a",))))
    assert all(divides(kind.shape, reached, mesh) for _, reached in path)


# -- MindSpore's sequences (device matrix, tensor maps; device dims count from the right) --------------

AG, A2A, SPLIT = MovementKind.ALL_GATHER, MovementKind.ALL_TO_ALL, MovementKind.SLICE

GOLDEN = [
    ([2, 4], [-1, -1], [1, 0], [(SPLIT, 0, 1), (SPLIT, 1, 0)], None),
    ([2, 4], [1, 0], [-1, -1], [(AG, 0, 1), (AG, 1, 0)], None),
    ([2, 4], [1, -1], [-1, 1], [(A2A, 0, 1, 1)], [(AG, 0, 1), (SPLIT, 1, 1)]),
    ([8], [0, -1], [-1, 0], [(A2A, 0, 0, 1)], [(AG, 0, 0), (SPLIT, 1, 0)]),
    ([2, 4], [1, -1], [0, -1], [(AG, 0, 1), (SPLIT, 0, 0)], None),
    (
        [2, 4],
        [1, 0],
        [0, 1],
        [(AG, 0, 1), (A2A, 1, 0, 0), (SPLIT, 1, 1)],
        [(AG, 0, 1), (AG, 1, 0), (SPLIT, 0, 0), (SPLIT, 1, 1)],
    ),
    ([4, 2], [1, 0], [0, -1], [(AG, 0, 1), (A2A, 1, 0, 0)], [(AG, 0, 1), (AG, 1, 0), (SPLIT, 0, 0)]),
    ([2, 4], [-1, 1], [1, 0], [(A2A, 1, 1, 0), (SPLIT, 1, 0)], [(AG, 1, 1), (SPLIT, 0, 1), (SPLIT, 1, 0)]),
    ([2, 4], [0, 1], [1, -1], [(AG, 0, 0), (A2A, 1, 1, 0)], [(AG, 0, 0), (AG, 1, 1), (SPLIT, 0, 1)]),
    (
        [2, 2, 2],
        [2, -1, 0],
        [-1, 2, 1],
        [(A2A, 0, 2, 1), (AG, 2, 0), (SPLIT, 2, 1)],
        [(AG, 0, 2), (SPLIT, 1, 2), (AG, 2, 0), (SPLIT, 2, 1)],
    ),
    (
        [2, 2, 2],
        [2, 1, 0],
        [0, 2, 1],
        [(AG, 0, 2), (A2A, 2, 0, 0), (A2A, 1, 1, 2), (SPLIT, 1, 2)],
        [(AG, 0, 2), (AG, 2, 0), (SPLIT, 0, 0), (AG, 1, 1), (SPLIT, 2, 1), (SPLIT, 1, 2)],
    ),
]


def golden_layout(tensor_map) -> Layout:
    return Layout(tuple(() if each < 0 else (f"dev{each}",) for each in tensor_map))


def golden_steps(start: Layout, sequence):
    layout = start
    for kind, dim, device, *to_dim in sequence:
        axes = (f"dev{device}",)
        if kind is MovementKind.SLICE:
            assert not layout.dims[dim]
            layout, _ = replaced(layout, dim, axes)
        else:
            layout, before = replaced(layout, dim, ())
            assert before == axes
        if to_dim:
            layout, before = replaced(layout, to_dim[0], axes)
            assert before == ()
        yield Movement(kind, axes, dim, *to_dim), layout


def mindspore(mesh: Mesh):
    """Its cost model: of the input s, an all-to-all counts 2 s, an all-gather n s / 2, a split s."""

    def cost(movement, size):
        if movement.kind is MovementKind.ALL_GATHER:
            return size / 2
        if movement.kind is MovementKind.SLICE:
            return size * mesh.product(movement.axes)
        return 2 * size

    return cost


@pytest.mark.parametrize("made", [mindspore, traffic, lambda mesh: network(mesh, 1.0)])
@pytest.mark.parametrize(("matrix", "came", "goes", "sequence", "without"), GOLDEN)
def test_our_paths_cost_at_most_those_of_mindspore(matrix, came, goes, sequence, without, made):
    mesh = Mesh.of({f"dev{len(matrix) - 1 - place}": size for place, size in enumerate(matrix)})
    router = RedistributionPlanner(mesh, made(mesh))
    kind = TensorType((16,) * len(came), DType.FP32)
    start, target = golden_layout(came), golden_layout(goes)
    cost, path = router.priced(kind, start, target)
    for steps in (sequence, without or sequence):
        theirs = list(golden_steps(start, steps))
        assert theirs[-1][1] == target
        assert cost <= price(router, kind, start, theirs)
    assert [reached for _, reached in path][-1] == target


@pytest.mark.parametrize(("matrix", "came", "goes", "sequence"), [case[:4] for case in GOLDEN[:4]])
def test_simple_paths_are_those_of_mindspore(matrix, came, goes, sequence):
    mesh = Mesh.of({f"dev{len(matrix) - 1 - place}": size for place, size in enumerate(matrix)})
    router = RedistributionPlanner(mesh, traffic(mesh))
    start, target = golden_layout(came), golden_layout(goes)
    path = router.path(TensorType((16,) * len(came), DType.FP32), start, target)
    assert {movement for movement, _ in path} == {movement for movement, _ in golden_steps(start, sequence)}


def test_many_axes_are_inferred_and_not_searched():
    """Ten axes of two ranks have more layouts between them than anyone could look at."""
    names = tuple("abcdefghij")
    mesh = Mesh.of(dict.fromkeys(names, 2))
    kind = TensorType((1024, 1024), DType.FP32)
    start, target = Layout((names[:5], names[5:])), Layout((names[5:], names[:5]))
    planner = RedistributionPlanner(mesh, traffic(mesh))
    path = planner.path(kind, start, target)
    assert path[-1][1] == target
    assert [movement for movement, _ in path] == [
        movement for movement, _ in infer_mindspore_sequence(start, target)
    ]


def test_a_sum_over_many_axes_is_scattered_where_that_is_cheaper():
    names = tuple("abcdefgh")
    mesh = Mesh.of(dict.fromkeys(names, 2))
    kind = TensorType((1024, 1024), DType.FP32)
    start = Layout(((), names[:4])).with_partial(names[4:])
    target = Layout((names[4:], names[:4]))
    ((movement, reached),) = RedistributionPlanner(mesh, traffic(mesh)).path(kind, start, target)
    assert movement.kind is MovementKind.REDUCE_SCATTER
    assert reached == target
