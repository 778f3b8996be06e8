"""The caching allocator: its rules one by one, and what holds for any order of requests."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simcluster.analysis.memory_usage.allocation_log import CATEGORIES
from simcluster.analysis.memory_usage.allocator_replay import replay_allocator
from simcluster.analysis.memory_usage.block_lists import EVERY_SIZE, PoolRules
from simcluster.analysis.memory_usage.caching_allocator import POOL_CODE, CachingAllocator, Pool
from simcluster.analysis.memory_usage.memory_verdict import pool_rules
from simcluster.plan.spec import AllocatorSpec
from simcluster.trace import Table
from tests.support.one_by_one import ReservedOneByOne

MIB = 1 << 20
NAMES = 100
IMPLEMENTATIONS = pytest.mark.parametrize("compiled", [False, True])


class Allocator:
    """Pools, asked one request at a time."""

    def __init__(self, name="torch"):
        rules = [pool_rules(pool) for pool in AllocatorSpec.load(name).pools]
        self.allocator = CachingAllocator(rules, NAMES)
        self.numbers, self.sizes = {}, {}

    @property
    def pools(self):
        return self.allocator.pools

    @property
    def reserved(self):
        return self.allocator.reserved

    @property
    def allocated(self):
        return sum(self.sizes.values())

    def allocate(self, name, size):
        self.sizes[name] = self.replay(name, size)

    def release(self, name):
        assert self.replay(name, -self.sizes[name]) == -self.sizes.pop(name)

    def replay(self, name, size):
        number, before = self.numbers.setdefault(name, len(self.numbers)), self.reserved
        growth = self.allocator.replay(np.array([number]), np.array([size]))
        assert sum(more for _, more in growth) == self.reserved - before
        requests = self.allocator.requests(np.array([number]), np.array([size]))
        return sum(int(own.sizes.sum()) for own in requests)


@pytest.mark.parametrize(
    ("size", "rounded", "reserved"),
    [
        (1, 512, 2 * MIB),
        (MIB, MIB, 2 * MIB),
        (MIB + 1, MIB + 512, 20 * MIB),
        (10 * MIB - 512, 10 * MIB - 512, 20 * MIB),
        (10 * MIB, 10 * MIB, 10 * MIB),
        (10 * MIB + 1, 10 * MIB + 512, 12 * MIB),
        (21 * MIB, 21 * MIB, 22 * MIB),
    ],
)
def test_what_torch_reserves_for_a_request(size, rounded, reserved):
    torch = Allocator()
    torch.allocate("it", size)
    assert (torch.allocated, torch.reserved) == (rounded, reserved)


def test_a_block_is_cut_only_where_enough_is_left():
    torch = Allocator()
    torch.allocate("whole", 12 * MIB)
    torch.release("whole")
    torch.allocate("most", 11 * MIB)  # 1 MiB is left: no more than the remainder, so the block is not cut
    torch.allocate("other", MIB + 512)
    assert torch.reserved == 12 * MIB + 20 * MIB
    torch.release("most")
    torch.allocate("less", 11 * MIB - 512)
    torch.allocate("rest", MIB + 512)  # fits into what was cut off
    assert torch.reserved == 12 * MIB + 20 * MIB


def test_the_smallest_block_that_fits_is_taken():
    torch = Allocator()
    for name, size in (("large", 40), ("small", 24)):
        torch.allocate(name, size * MIB)
    torch.release("large")
    torch.release("small")
    torch.allocate("fits", 22 * MIB)
    torch.allocate("still whole", 40 * MIB)
    assert torch.reserved == 64 * MIB


def test_neighbours_join_within_a_segment_but_not_across():
    torch = Allocator()
    torch.allocate("one", 10 * MIB)
    torch.allocate("two", 10 * MIB)
    torch.release("one")
    torch.release("two")
    torch.allocate("both", 20 * MIB)
    assert torch.reserved == 40 * MIB  # two segments do not make one
    torch.release("both")
    for name in "abcd":
        torch.allocate(name, 5 * MIB)
    for name in "badc":
        torch.release(name)
    torch.allocate("again", 20 * MIB)  # the four lay side by side
    assert torch.reserved == 40 * MIB


def test_expandable_segments_leave_no_gaps():
    torch, expandable = Allocator(), Allocator("torch-expandable")
    for each in (torch, expandable):
        for size in range(11, 40, 2):
            each.allocate(size, size * MIB)
            each.release(size)
    assert expandable.reserved == 40 * MIB
    assert torch.reserved > 5 * expandable.reserved


def test_mindspore_takes_blocks_of_a_gibibyte():
    pool = Allocator("mindspore")
    for number in range(9):
        pool.allocate(number, 128 * MIB)
    assert pool.reserved == 2048 * MIB
    pool.allocate("large", 1500 * MIB)
    assert pool.reserved == 4096 * MIB


def spans(pool):
    """(start, end) in bytes of the blocks that are taken, and of those that are free."""
    blocks, taken = pool.blocks, []

    def span(block):
        start, end = blocks.starts[block], blocks.starts[block] + blocks.lengths[block]
        return start * pool.unit, end * pool.unit

    for block in filter(None, blocks.taken):
        while block:
            taken.append(span(block))
            block = blocks.later[block]
    return taken, [span(block) for block in filter(None, blocks.free)]


REQUESTS = st.lists(st.tuples(st.integers(1, 60 * MIB), st.integers(0, 10)), max_size=60)


@given(REQUESTS, st.sampled_from(sorted(AllocatorSpec.entries())))
@settings(max_examples=40)
def test_blocks_never_overlap_and_everything_comes_back(requests, name):
    """Live and free blocks tile what is reserved at any time; at the end free blocks are segments."""
    pool = Allocator(name)
    living = []
    num_segments = [0 for _ in pool.pools]
    for number, (size, drop) in enumerate(requests):
        known = [each.reserved for each in pool.pools]
        pool.allocate(number, size)
        for place, each in enumerate(pool.pools):
            num_segments[place] += each.reserved > known[place]
        living.append(number)
        if drop < len(living):
            pool.release(living.pop(drop))
        for each in pool.pools:
            taken, free = spans(each)
            tiles = [0, *(end for _, end in sorted([*taken, *free]))]
            assert [start for start, _ in sorted([*taken, *free])] == tiles[:-1]
            assert tiles[-1] == each.reserved
    for number in living:
        pool.release(number)
    assert pool.allocated == 0
    for each, count in zip(pool.pools, num_segments, strict=True):
        assert len(spans(each)[1]) == (min(count, 1) if each.rules.expandable else count)


@IMPLEMENTATIONS
def test_what_has_been_there_longest_under_a_name_is_released_first(compiled):
    pool = Pool(PoolRules(EVERY_SIZE, 512, 10 * MIB, EVERY_SIZE, 512, 0), NAMES, compiled=compiled)
    pool.replay(np.array([7, 7, 7, 8]), np.full(4, MIB))
    whole = [(place * MIB, (place + 1) * MIB) for place in range(4)]
    assert spans(pool)[0] == whole
    for count in range(1, 4):
        pool.replay(np.array([7]), np.array([-MIB]))
        assert spans(pool)[0] == whole[count:]


SIZES = st.sampled_from([512, 1024, 1536, MIB // 2, MIB, 2 * MIB, 3 * MIB + 512, 10 * MIB])
MOVES = st.lists(st.tuples(st.integers(0, 12), st.booleans(), SIZES), max_size=200)
RULES = st.builds(
    PoolRules,
    st.just(EVERY_SIZE),
    st.just(512),
    st.sampled_from([10 * MIB, 20 * MIB]),
    st.sampled_from([4 * MIB, 10 * MIB]),
    st.sampled_from([512, 2 * MIB]),
    st.sampled_from([0, 511, MIB, 4 * MIB]),
    st.booleans(),
)


@IMPLEMENTATIONS
@given(MOVES, RULES, st.integers(1, 50))
@settings(max_examples=60)
def test_a_pool_reserves_what_one_by_one_does(compiled, moves, rules, together):
    """Names are taken several times at once; requests come in pieces."""
    expected, pool, held, asked = ReservedOneByOne(rules), Pool(rules, NAMES, compiled=compiled), {}, []
    for name, release, size in moves:
        mine = held.setdefault(name, [])
        if release and mine:
            asked.append((name, -mine.pop(0)))
        else:
            mine.append(size)
            asked.append((name, size))
    grown = [expected.asked(name, size) for name, size in asked]
    names, sizes = np.array(asked, dtype=np.int64).reshape(-1, 2).T.copy()
    found = np.zeros(len(asked), dtype=np.int64)
    for first in range(0, len(asked), together):
        for row, more in pool.replay(names[first : first + together], sizes[first : first + together]):
            found[first + row] = more
    assert found.tolist() == grown
    assert pool.reserved == expected.reserved


@IMPLEMENTATIONS
@pytest.mark.parametrize(("remainder", "reserved"), [(MIB - 1, 10 * MIB), (MIB, 20 * MIB)])
def test_what_is_left_of_a_block_is_cut_off_if_it_is_more_than_the_remainder(compiled, remainder, reserved):
    pool = Pool(PoolRules(EVERY_SIZE, 512, 10 * MIB, EVERY_SIZE, 512, remainder), NAMES, compiled=compiled)
    pool.replay(np.array([0, 1]), np.array([9 * MIB, MIB]))
    assert pool.reserved == reserved


@IMPLEMENTATIONS
def test_names_change_hands(compiled):
    pool = Pool(PoolRules(EVERY_SIZE, 512, 10 * MIB, EVERY_SIZE, 512, 0), NAMES, compiled=compiled)
    pool.replay(np.array([3, 4]), np.array([MIB, 2 * MIB]))
    pool.rename(np.array([3, 4]), np.array([4, 5]))
    pool.replay(np.array([4]), np.array([-MIB]))
    assert spans(pool)[0] == [(MIB, 3 * MIB)]


def test_addresses_beyond_those_of_machine_code_are_for_lists():
    """Of an allocator whose unit is one byte, 2 GiB and more."""
    rules = [PoolRules(EVERY_SIZE, 1, MIB, MIB, 1, 0)]
    sizes = np.array([3 << 30, -(3 << 30), 5 << 30, -(5 << 30)])
    with pytest.raises(OverflowError):
        Pool(rules[0], NAMES, compiled=True).replay(np.zeros(1, dtype=np.int64), sizes[:1])
    with pytest.raises(OverflowError):
        Pool(rules[0], NAMES, compiled=True).replay(np.arange(3), np.full(3, 1 << 30))
    columns = {"time": np.arange(4), "bytes": sizes, "buffer": np.zeros(4, dtype=np.int64)}
    columns |= {"micro_batch": np.zeros(4, dtype=np.int64), "category": np.zeros(4, dtype=np.int64)}
    account = Table(columns, {"buffer": ["it"], "category": CATEGORIES})
    assert POOL_CODE.is_loaded
    assert replay_allocator(account, rules)[-1][1] == 8 << 30


@pytest.mark.parametrize("name", sorted(AllocatorSpec.entries()))
def test_shipped_allocators_are_sourced(name):
    assert AllocatorSpec.sourced(name).source
