"""The caching allocator: its rules one by one, and what holds for any order of requests."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simcluster.analysis.memory_usage.caching_allocator import START, CachingAllocator, PoolRules
from simcluster.analysis.memory_usage.memory_verdict import pool_rules
from simcluster.plan.spec.allocator import AllocatorSpec

MIB = 1 << 20


class Allocator:
    """Pools, asked one request at a time."""

    def __init__(self, name="torch"):
        rules = [pool_rules(pool) for pool in AllocatorSpec.load(name).pools]
        self.allocator = CachingAllocator.of(rules)
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
        asked = np.array([size])
        (pool,) = self.allocator.pools_of(asked)
        (rounded,) = self.allocator.rounded(asked, np.array([pool])).tolist()
        before = self.pools[pool].reserved
        grown = self.pools[pool].replay([self.numbers.setdefault(name, len(self.numbers))], [rounded])
        assert sum(more for _, more in grown) == self.pools[pool].reserved - before
        return rounded


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


def span(block):
    """Where a block starts and ends."""
    start = block & ((1 << START) - 1)
    return start, start + (block >> START)


REQUESTS = st.lists(st.tuples(st.integers(1, 60 * MIB), st.integers(0, 10)), max_size=60)


@given(REQUESTS, st.sampled_from(sorted(AllocatorSpec.entries())))
@settings(max_examples=40)
def test_blocks_never_overlap_and_everything_comes_back(requests, name):
    """Live and free blocks tile what is reserved at any time; at the end free neighbours are one."""
    pool = Allocator(name)
    living = []
    for number, (size, drop) in enumerate(requests):
        pool.allocate(number, size)
        living.append(number)
        if drop < len(living):
            pool.release(living.pop(drop))
        for each in pool.pools:
            spans = sorted(map(span, [*each.blocks.values(), *each.free]))
            assert all(end <= start for (_, end), (start, _) in pairwise(spans))
            assert sum(end - start for start, end in spans) == each.reserved
    for number in living:
        pool.release(number)
    assert pool.allocated == 0
    for each in pool.pools:
        spans = list(map(span, each.free))
        assert not {end for _, end in spans} & {start for start, _ in spans}


def test_what_has_been_there_longest_under_a_name_is_released_first():
    (pool,) = CachingAllocator.of([PoolRules(math.inf, 512, 10 * MIB, math.inf, 512, 0)]).pools
    pool.replay([7, 7, 7, 8], [MIB, MIB, MIB, MIB])
    blocks = [span(block) for block in (pool.blocks[7], *pool.later[7])]
    assert blocks == [(0, MIB), (MIB, 2 * MIB), (2 * MIB, 3 * MIB)]
    for _, end in blocks:
        pool.replay([7], [-MIB])
        assert (0, end) in map(span, pool.free)
    assert not pool.later and list(pool.blocks) == [8]


@pytest.mark.parametrize("name", sorted(AllocatorSpec.entries()))
def test_shipped_allocators_are_sourced(name):
    assert AllocatorSpec.sourced(name).source
