"""Every pipeline schedule: complete, runnable, as long and as hungry for memory as its paper says."""

from __future__ import annotations

import re
from fractions import Fraction

import pytest

from simcluster.plan.schedule import Schedule, check, parse, render
from simcluster.registry import kinds

SCHEDULES = kinds("simcluster.plan.schedules", Schedule)

# Micro-batches whose activations a stage holds at once, by stage, stages and micro-batches.
PEAKS = {
    "gpipe": lambda stage, p, m: m,
    "1f1b": lambda stage, p, m: min(p - stage, m),
}
SIZES = [(p, m) for p in (1, 2, 3, 4, 5, 8) for m in (1, 2, 3, 4, 7, 8, 16)]

every_schedule = pytest.mark.parametrize("kind", sorted(SCHEDULES))
every_size = pytest.mark.parametrize(("p", "m"), SIZES)


def timetable(kind, p, m):
    return SCHEDULES[kind]().timetable(p, m)


def makespan(actions, forward, backward):
    """When the last action ends, from dependencies alone; times per stage, transfers take none."""
    ends: dict = {}
    clock = [0] * len(actions)
    queues = [list(each) for each in actions]
    while any(queues):
        moved = False
        for stage, queue in enumerate(queues):
            while queue:
                action = queue[0]
                before = [(stage, "F", action.micro_batch)] if action.kind == "B" else []
                neighbour = stage - 1 if action.kind == "F" else stage + 1
                if 0 <= neighbour < len(queues):
                    before.append((neighbour, action.kind, action.micro_batch))
                if any(each not in ends for each in before):
                    break
                start = max([clock[stage], *(ends[each] for each in before)])
                length = (forward if action.kind == "F" else backward)[stage]
                clock[stage] = ends[stage, action.kind, action.micro_batch] = start + length
                queue.pop(0)
                moved = True
        assert moved, f"deadlock: {[str(queue[0]) for queue in queues if queue]}"
    return max(clock)


def peaks(actions):
    found = []
    for row in actions:
        alive, most = set(), 0
        for action in row:
            if action.kind == "F":
                alive.add(action.micro_batch)
            else:
                alive.remove(action.micro_batch)
            most = max(most, len(alive))
        assert not alive
        found.append(most)
    return found


@every_schedule
def test_it_has_a_formula_for_its_peak(kind):
    assert kind in PEAKS, f"schedule '{kind}': add the peak of its live activations to PEAKS in {__file__}"


@every_schedule
@every_size
def test_every_micro_batch_goes_once_each_way_through_every_stage(kind, p, m):
    found = timetable(kind, p, m)
    assert len(found) == p
    for actions in found:
        for direction in "FB":
            assert sorted(each.micro_batch for each in actions if each.kind == direction) == list(range(m))
        assert len(actions) == 2 * m
    check(found, m)


@every_schedule
@every_size
def test_it_keeps_dependencies_and_takes_the_published_time(kind, p, m):
    """(m + p - 1)(f + b) for equal stages: GPipe (arXiv 1811.06965) and 1F1B (arXiv 2006.09503) alike."""
    for forward, backward in ((1, 1), (1, 2), (3, 2)):
        length = makespan(timetable(kind, p, m), [forward] * p, [backward] * p)
        assert length == (m + p - 1) * (forward + backward)


@every_schedule
@every_size
def test_it_keeps_as_many_activations_as_its_formula_says(kind, p, m):
    assert peaks(timetable(kind, p, m)) == [PEAKS[kind](stage, p, m) for stage in range(p)]


@every_schedule
@every_size
def test_it_is_its_text_and_always_the_same(kind, p, m):
    found = timetable(kind, p, m)
    assert parse(render(found)) == found
    assert timetable(kind, p, m) == found


@every_schedule
def test_uneven_stages_take_at_least_their_slowest_and_at_most_everything(kind):
    for forward in ([1, 2, 3], [3, 1, 1], [1, 1, 4]):
        backward = [2 * time for time in forward]
        length = makespan(timetable(kind, 3, 6), forward, backward)
        assert length >= 6 * max(f + b for f, b in zip(forward, backward, strict=True))
        assert length <= 6 * sum(f + b for f, b in zip(forward, backward, strict=True))


# -- published timelines without communication; a backward takes twice a forward ------------------------


def bubble(kind, p, m, blocks=None):
    """(stages x makespan - work) / work."""
    forward = blocks or [1] * p
    backward = [2 * time for time in forward]
    work = m * (sum(forward) + sum(backward))
    return Fraction(p * makespan(timetable(kind, p, m), forward, backward) - work, work)


@every_schedule
@pytest.mark.parametrize(
    ("p", "m", "expected"),
    [
        (2, 2, 0.5),
        (2, 8, 0.125),
        (4, 4, 0.75),
        (4, 8, 0.375),
        (4, 16, 0.1875),
        (8, 8, 0.875),
        (8, 32, 0.21875),
    ],
)
def test_the_bubble_is_the_published_one(kind, p, m, expected):
    assert bubble(kind, p, m) == Fraction(expected) == Fraction(p - 1, m)


def test_1f1b_with_uneven_blocks():
    """Blocks 1, 1, 2, 1: makespan 55, bubble .8333 = .375 + .4583 of imbalance."""
    blocks = [1, 1, 2, 1]
    found = timetable("1f1b", 4, 8)
    assert makespan(found, blocks, [2 * time for time in blocks]) == 55
    assert float(bubble("1f1b", 4, 8, blocks)) == pytest.approx(0.8333, abs=1e-4)
    assert [peak * block for peak, block in zip(peaks(found), blocks, strict=True)] == [4, 3, 4, 1]


def test_1f1b_with_full_recomputation():
    """A backward runs the forward again: .8333 = .375 + .125 + .3333 of recomputation."""
    length = makespan(timetable("1f1b", 4, 8), [1] * 4, [3] * 4)
    useful = 4 * 8 * 3
    assert float(Fraction(4 * length - useful, useful)) == pytest.approx(0.8333, abs=1e-4)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [("1f1b", {2: [2, 1], 4: [4, 3, 2, 1], 8: [8, 7, 6, 5, 4, 3, 2, 1]}), ("gpipe", {4: [8] * 4})],
)
def test_the_peaks_are_the_published_ones(kind, expected):
    for p, wanted in expected.items():
        assert peaks(timetable(kind, p, 8)) == wanted


def test_1f1b_on_four_stages_reads_as_in_the_paper():
    wanted = """
    F0 F1 F2 F3 B0 F4 B1 F5 B2 F6 B3 F7 B4 B5 B6 B7
    F0 F1 F2 B0 F3 B1 F4 B2 F5 B3 F6 B4 F7 B5 B6 B7
    F0 F1 B0 F2 B1 F3 B2 F4 B3 F5 B4 F6 B5 F7 B6 B7
    F0 B0 F1 B1 F2 B2 F3 B3 F4 B4 F5 B5 F6 B6 F7 B7
    """
    assert render(timetable("1f1b", 4, 8)) == re.sub(r"^ +|\n +$", "", wanted.strip(), flags=re.MULTILINE)


def test_gpipe_runs_all_forwards_first():
    assert render(timetable("gpipe", 2, 3)) == "\n".join(["F0 F1 F2 B0 B1 B2"] * 2)
