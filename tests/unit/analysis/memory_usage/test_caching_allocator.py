"""The caching allocator: its rules one by one, and what holds for any order of requests."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simcluster.analysis.memory_usage.caching_allocator import CachingAllocator
from simcluster.analysis.memory_usage.memory_verdict import pool_rules
from simcluster.plan.spec.allocator import AllocatorSpec

MIB = 1 << 20


def allocator(name="torch"):
    return CachingAllocator.of(tuple(pool_rules(pool) for pool in AllocatorSpec.load(name).pools))


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
    torch = allocator()
    torch.allocate("it", size)
    assert (torch.allocated, torch.reserved) == (rounded, reserved)


def test_a_block_is_cut_only_where_enough_is_left():
    torch = allocator()
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
    torch = allocator()
    for name, size in (("large", 40), ("small", 24)):
        torch.allocate(name, size * MIB)
    torch.release("large")
    torch.release("small")
    torch.allocate("fits", 22 * MIB)
    torch.allocate("still whole", 40 * MIB)
    assert torch.reserved == 64 * MIB


def test_neighbours_join_within_a_segment_but_not_across():
    torch = allocator()
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
    torch, expandable = allocator(), allocator("torch-expandable")
    for each in (torch, expandable):
        for size in range(11, 40, 2):
            each.allocate(size, size * MIB)
            each.release(size)
    assert expandable.reserved == 40 * MIB
    assert torch.reserved > 5 * expandable.reserved


def test_mindspore_takes_blocks_of_a_gibibyte():
    pool = allocator("mindspore")
    for number in range(9):
        pool.allocate(number, 128 * MIB)
    assert pool.reserved == 2048 * MIB
    pool.allocate("large", 1500 * MIB)
    assert pool.reserved == 4096 * MIB


REQUESTS = st.lists(st.tuples(st.integers(1, 60 * MIB), st.integers(0, 10)), max_size=60)


@given(REQUESTS, st.sampled_from(sorted(AllocatorSpec.entries())))
@settings(max_examples=40)
def test_blocks_never_overlap_and_everything_comes_back(requests, name):
    """Live and free blocks tile what is reserved at any time; at the end free neighbours are one."""
    pool = allocator(name)
    living = []
    for number, (size, drop) in enumerate(requests):
        pool.allocate(number, size)
        living.append(number)
        if drop < len(living):
            pool.release(living.pop(drop))
        taken = [block for found in pool.blocks.values() for block in found]
        assert pool.allocated == sum(rounded for *_, rounded in taken)
        for each in pool.pools:
            spans = [span for owner, span, _ in taken if owner is each] + each.free
            spans = sorted((start, start + have) for have, start in spans)
            assert all(end <= start for (_, end), (start, _) in pairwise(spans))
            assert sum(end - start for start, end in spans) == each.reserved
    for number in living:
        pool.release(number)
    assert pool.allocated == 0
    for each in pool.pools:
        ends = {start + have for have, start in each.free}
        assert not ends & {start for _, start in each.free}


@pytest.mark.parametrize("name", sorted(AllocatorSpec.entries()))
def test_shipped_allocators_are_sourced(name):
    assert AllocatorSpec.sourced(name).source
