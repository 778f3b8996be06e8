"""Every pipeline schedule: complete, runnable, as long and as hungry for memory as its paper says."""

from __future__ import annotations

import re
from fractions import Fraction
from functools import cache

import pytest

from simcluster.errors import PlanError
from simcluster.plan.pipeline.schedule import activation_peaks, parse, render, validate_schedule
from simcluster.plan.schedules.text import TextSchedule
from tests.support.covering import quick
from tests.support.schedule_runs import SCHEDULES, equal, run

INTERLEAVED = ("interleaved", "interleaved_mindspore")
SLICED = ("seqvpp", "seqsmartvpp")
CASES = (
    [(kind, {}) for kind in sorted(SCHEDULES)]
    + [(kind, {"chunks": chunks}) for kind in INTERLEAVED for chunks in (1, 3, 4)]
    + [("seqpipe", {"slices": slices}) for slices in (1, 4)]
    + [(kind, options) for kind in SLICED for options in ({"slices": 1}, {"slices": 4}, {"chunks": 3})]
)
STAGES, MICRO_BATCHES = (1, 2, 3, 4, 5, 8), (1, 2, 3, 4, 7, 8, 16)


def rounds(kind, p, m):
    """Micro-batches of the first round of an interleaved schedule."""
    if kind == "interleaved":
        return p
    return m // max(1, m // p) + (m % max(1, m // p) > 0)


def most_interleaved(kind):
    def most(stage, p, m, chunks=2):
        return min((chunks - 1) * rounds(kind, p, m) + 2 * (p - stage - 1) + 1, chunks * m)

    return most


def most_sliced(behind):
    def most(stage, p, m, chunks=2, slices=2):
        cycle, count = p // slices, max(1, m // (p // slices))
        first = m // count + (m % count > 0) if m >= cycle else m
        return min((chunks - 1) * first * slices + behind * (p - stage - 1) + slices, chunks * m * slices)

    return most


# Activations that a stage holds at once, of a micro-batch and chunk each, by stage, stages and micro-batches.
PEAKS = {
    "gpipe": lambda stage, p, m: m,
    "1f1b": lambda stage, p, m: min(p - stage, m),
    "interleaved": most_interleaved("interleaved"),
    "interleaved_mindspore": most_interleaved("interleaved_mindspore"),
    "zb_h1": lambda stage, p, m: min(p, m),
    "zb_h2": lambda stage, p, m: min(2 * p - 1, m),
    "zb_v": lambda stage, p, m: 2 * p if m >= 2 * p - 1 else None,
    "dualpipe_v": lambda stage, p, m: 2 * p + 1 if m > 2 * p else None,
    "v_half": lambda stage, p, m: (p + 1 if p % 2 else p + 2 + stage % 2) if m >= 2 * p else None,
    "seqpipe": lambda stage, p, m, slices=2: min(p - stage - 1 + slices, m * slices),
    "seqvpp": most_sliced(2),
    "seqsmartvpp": most_sliced(1),
}

# What a stage waits, for equal chunks, of a forward f, a backward's halves i and w, and a pair of both.
BUBBLES = {
    "gpipe": lambda p, m, f, i, w, pair: (p - 1) * (f + i + w),
    "1f1b": lambda p, m, f, i, w, pair: (p - 1) * (f + i + w),
    "interleaved": lambda p, m, f, i, w, pair: (p - 1) * (f + i + w) if m % p == 0 else None,
    "interleaved_mindspore": lambda p, m, f, i, w, pair: (p - 1) * (f + i + w) if m % p == 0 else None,
    "zb_h1": lambda p, m, f, i, w, pair: (p - 1) * (f + i - w) if m >= p else None,
    # The fill alone: optimizers that do not wait for one another would make it nothing.
    "zb_h2": lambda p, m, f, i, w, pair: (p - 1) * f if f == i == w and m >= 2 * p - 1 else None,
    "zb_v": lambda p, m, f, i, w, pair: (p - 1) * f if f == i == w and m >= 2 * p - 1 else None,
    "dualpipe_v": lambda p, m, f, i, w, pair: (
        (p - 1) * (pair + i - 2 * w) if f == i == w and m > 2 * p else None
    ),
    "v_half": lambda p, m, f, i, w, pair: -(-7 * (p - 1) // 2) * f if f == i == w and m >= 2 * p else None,
    # That of one slice instead of a whole micro-batch.
    "seqpipe": lambda p, m, f, i, w, pair: (p - 1) * (f + i + w),
    "seqvpp": lambda p, m, f, i, w, pair: (p - 1) * (f + i + w),
    "seqsmartvpp": lambda p, m, f, i, w, pair: (p - 1) * (f + i + w),
}


def refusal(kind, options, p, m):
    """What a schedule says that it does not do, if anything: rounds that are not whole, say."""
    slices = options.get("slices", 2)
    if kind == "interleaved" and options.get("chunks", 2) > 1 and m > p and m % p:
        return f"{m} micro-batches are not a multiple of the {p} pipeline stages"
    if kind == "seqsmartvpp" and p % 2:
        return f"an even number of stages, not {p}"
    if kind in SLICED and p % slices:
        return f"{p} stages are filled by no whole number of micro-batches of {slices} slices"
    if kind in SLICED and m * slices < p:
        return f"{m} micro-batches x {slices} slices are fewer than {p} stages"
    return ""


RUNS = [(*case, p, m) for case in CASES for p in STAGES for m in MICRO_BATCHES]
every_case = pytest.mark.parametrize(("kind", "options"), CASES)
STAGED = [
    (*case, p) for case in CASES for p in STAGES if not all(refusal(*case, p, m) for m in MICRO_BATCHES)
]
every_run = pytest.mark.parametrize(
    ("kind", "options", "p"), quick(STAGED, *[each for each in STAGED if each[-1] in (1, 3, 4)])
)


def made(kind, options):
    return SCHEDULES[kind](**options)


def timetable(kind, p, m, **options):
    """The timetable."""
    return made(kind, options).timetable(p, m)


def runs(kind, options, p):
    """(micro-batches, timetable) for all numbers of them that so many stages accept."""
    return _runs(kind, tuple(options.items()), p)


@cache
def _runs(kind, items, p):
    options = dict(items)
    counts = [m for m in MICRO_BATCHES if not refusal(kind, options, p, m)]
    return [(m, timetable(kind, p, m, **options)) for m in counts]


def held(actions, weights=None):
    """The most that is alive on each stage, ``weights`` [chunk][stage] of each micro-batch and chunk."""
    found = []
    for stage, row in enumerate(actions):
        alive, most = set(), 0
        halves = [half for action in row for half in action.parts]
        for half in halves:
            if half.kind == "F":
                alive.add(half.unit)
            elif half.kind in "WB":
                alive.remove(half.unit)
            now = sum(weights[chunk][stage] for _, chunk, _ in alive) if weights else len(alive)
            most = max(most, now)
        assert not alive
        found.append(most)
    return found


def test_every_schedule_has_formulas():
    for kind in SCHEDULES:
        assert kind in PEAKS, (
            f"schedule '{kind}': add the peak of its live activations to PEAKS in {__file__}"
        )
        assert kind in BUBBLES, f"schedule '{kind}': add its bubble to BUBBLES in {__file__}"


def test_what_a_schedule_does_not_do_is_refused():
    refused = [each for each in RUNS if refusal(*each)]
    assert {kind for kind, *_ in refused} == {"interleaved", *SLICED}
    for kind, options, p, m in refused:
        with pytest.raises(PlanError, match=refusal(kind, options, p, m)):
            made(kind, options).timetable(p, m)


@every_run
def test_every_micro_batch_goes_once_each_way_through_every_chunk(kind, options, p):
    chain, slices = made(kind, options).chain(p), made(kind, options).num_slices
    for m, found in runs(kind, options, p):
        assert len(found) == p == chain.num_stages
        for actions in found:
            halves = [half for action in actions for half in action.parts]
            for chunk in range(chain.num_chunks):
                mine = [half for half in halves if half.chunk == chunk]
                for direction in ("F", "BI", "BW"):
                    units = sorted((each.micro_batch, each.slice) for each in mine if each.kind in direction)
                    assert units == [(index, part) for index in range(m) for part in range(slices)]
        validate_schedule(found, m, chain, slices)


@every_run
def test_it_keeps_dependencies_and_takes_the_published_time(kind, options, p):
    """The stage that works longest waits for its published bubble and no longer."""
    chain = made(kind, options).chain(p)
    for m, found in runs(kind, options, p):
        for f, i, w in ((1, 1, 0), (1, 1, 1), (3, 1, 1), (2, 2, 2), (3, 3, 3)):
            pair = f + i + w - 1
            bubble = BUBBLES[kind](p, m, f, i, w, pair)
            length, work = run(found, chain, equal(chain, f, i, w), pair)
            if bubble is not None and not (w == 0 and kind.startswith("zb")):
                assert length - min(work) == bubble, f"{m} micro-batches"
            assert length >= max(work), f"{m} micro-batches"


@every_run
def test_it_keeps_as_many_activations_as_its_formula_says(kind, options, p):
    for m, found in runs(kind, options, p):
        wanted = [PEAKS[kind](stage, p, m, **options) for stage in range(p)]
        assert held(found) == activation_peaks(found), f"{m} micro-batches"
        if None not in wanted:
            assert activation_peaks(found) == wanted, f"{m} micro-batches"


@every_run
def test_it_is_its_text_and_always_the_same(kind, options, p):
    for m, found in runs(kind, options, p):
        assert parse(render(found)) == found
        assert timetable(kind, p, m, **options) == found


@every_case
def test_uneven_stages_take_at_least_their_slowest_and_at_most_everything(kind, options):
    found, chain = timetable(kind, 4, 8, **options), made(kind, options).chain(4)
    for forward in ([1, 2, 3, 1], [3, 1, 1, 1], [1, 1, 1, 4]):
        times = {
            name: [[factor * time for time in forward] for _ in range(chain.num_chunks)]
            for name, factor in {"F": 1, "I": 1, "W": 1, "B": 2}.items()
        }
        length, work = run(found, chain, times)
        assert max(work) <= length <= sum(work)


# -- published timelines without communication; a backward takes twice a forward ------------------------


def bubble(kind, p, m, blocks=None, **options):
    """(stages x makespan - work) / work, with ``blocks`` [chunk][stage]."""
    found, chain = timetable(kind, p, m, **options), made(kind, options).chain(p)
    blocks = blocks or [[1] * p for _ in range(chain.num_chunks)]
    double = [[2 * time for time in row] for row in blocks]
    length, work = run(found, chain, {"F": blocks, "B": double, "I": blocks, "W": blocks})
    return Fraction(p * length - sum(work), sum(work)), held(found, blocks)


@pytest.mark.parametrize("kind", ["gpipe", "1f1b"])
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
    assert bubble(kind, p, m)[0] == Fraction(expected) == Fraction(p - 1, m)


@pytest.mark.parametrize("kind", INTERLEAVED)
@pytest.mark.parametrize(
    ("v", "m", "expected", "alive"),
    [
        (2, 4, 0.375, [8, 8, 7, 5]),
        (2, 8, 0.1875, [11, 9, 7, 5]),
        (2, 16, 0.09375, [11, 9, 7, 5]),
        (3, 8, 0.125, [15, 13, 11, 9]),
    ],
)
def test_interleaved_stages_wait_and_hold_what_is_published(kind, v, m, expected, alive):
    assert bubble(kind, 4, m, chunks=v) == (Fraction(expected), alive)
    assert Fraction(expected) == Fraction(3, v * m)


def test_a_rest_of_micro_batches_is_spread_over_the_rounds():
    """P15 v2 M16: bubble .5741 = .4375 + .1366 of imbalance, memory 96 x 7, 93, 103, 97, ..., 73, 70.2.

    The reference does not print the blocks. These are those that follow from its peaks: 32 activations of
    3 on stage 0, 16 of 4 and 13 of 3 on stage 8, 16 of 4.2 and one of 3 on the last.
    """
    blocks = [[3] * 8 + [4] * 6 + [Fraction(42, 10)], [3] * 15]
    found, alive = bubble("interleaved_mindspore", 15, 16, blocks)
    assert [float(each) for each in alive] == [96] * 7 + [93, 103, 97, 91, 85, 79, 73, 70.2]
    assert float(found) == pytest.approx(0.5741, abs=1e-4)


def test_1f1b_with_uneven_blocks():
    """Blocks 1, 1, 2, 1: makespan 55, bubble .8333 = .375 + .4583 of imbalance."""
    blocks = [[1, 1, 2, 1]]
    found, chain = timetable("1f1b", 4, 8), made("1f1b", {}).chain(4)
    assert run(found, chain, {"F": blocks, "B": [[2, 2, 4, 2]]})[0] == 55
    wait, alive = bubble("1f1b", 4, 8, blocks)
    assert float(wait) == pytest.approx(0.8333, abs=1e-4)
    assert alive == [4, 3, 4, 1]


def test_1f1b_with_transfers_that_are_waited_for_one_by_one():
    """Blocks 8, 8, 8, 8.8, M16, transfers of .1: .2658 is the makespan, and on the longest stage two
    transfers of every micro-batch, and those of the fill and the drain.
    """
    blocks = [[8, 8, 8, Fraction(88, 10)]]
    found, chain = timetable("1f1b", 4, 16), made("1f1b", {}).chain(4)
    double = [[2 * each for each in blocks[0]]]
    length, work = run(found, chain, {"F": blocks, "B": double})
    waited = (2 * 16 + 2 * 3) * Fraction(1, 10)
    assert float((4 * (length + waited) - sum(work)) / sum(work)) == pytest.approx(0.2658, abs=5e-5)
    assert [float(each) for each in held(found, blocks)] == [32, 24, 16, 8.8]


def test_1f1b_with_full_recomputation():
    """A backward runs the forward again: .8333 = .375 + .125 + .3333 of recomputation."""
    found, chain = timetable("1f1b", 4, 8), made("1f1b", {}).chain(4)
    length, _ = run(found, chain, {"F": [[1] * 4], "B": [[3] * 4]})
    useful = 4 * 8 * 3
    assert float(Fraction(4 * length - useful, useful)) == pytest.approx(0.8333, abs=1e-4)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [("1f1b", {2: [2, 1], 4: [4, 3, 2, 1], 8: [8, 7, 6, 5, 4, 3, 2, 1]}), ("gpipe", {4: [8] * 4})],
)
def test_the_peaks_are_the_published_ones(kind, expected):
    for p, wanted in expected.items():
        assert activation_peaks(timetable(kind, p, 8)) == wanted


# -- orders as they are printed elsewhere ----------------------------------------------------------------


def same(found, wanted):
    return render(found) == re.sub(r"^ +|\n +$", "", wanted.strip(), flags=re.MULTILINE)


def test_1f1b_on_four_stages_reads_as_in_the_paper():
    wanted = """
    F0 F1 F2 F3 B0 F4 B1 F5 B2 F6 B3 F7 B4 B5 B6 B7
    F0 F1 F2 B0 F3 B1 F4 B2 F5 B3 F6 B4 F7 B5 B6 B7
    F0 F1 B0 F2 B1 F3 B2 F4 B3 F5 B4 F6 B5 F7 B6 B7
    F0 B0 F1 B1 F2 B2 F3 B3 F4 B4 F5 B5 F6 B6 F7 B7
    """
    assert same(timetable("1f1b", 4, 8), wanted)


def test_gpipe_runs_all_forwards_first():
    assert render(timetable("gpipe", 2, 3)) == "\n".join(["F0 F1 F2 B0 B1 B2"] * 2)


def test_interleaved_on_two_stages_goes_through_the_chunks_in_rounds():
    wanted = """
    F0 F1 F0c1 F1c1 F2 B0c1 F3 B1c1 F2c1 B0 F3c1 B1 B2c1 B3c1 B2 B3
    F0 F1 F0c1 B0c1 F1c1 B1c1 F2 B0 F3 B1 F2c1 B2c1 F3c1 B3c1 B2 B3
    """
    assert same(timetable("interleaved", 2, 4), wanted)


def test_what_is_written_out_is_what_is_done():
    for kind, p, m in (("1f1b", 3, 4), ("interleaved", 3, 6)):
        written = TextSchedule(render(timetable(kind, p, m)))
        assert written.timetable(p, m) == timetable(kind, p, m)
        assert written.chain(p) == made(kind, {}).chain(p)
        with pytest.raises(PlanError, match=f"has {p} lines, but the pipeline {p + 1} stages"):
            written.timetable(p + 1, m)
        with pytest.raises(PlanError, match=f"must run F and B once for each of {m + 1} micro-batches"):
            written.timetable(p, m + 1)
