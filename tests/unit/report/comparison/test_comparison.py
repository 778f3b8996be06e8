"""Results side by side: what is said about a change is what the results themselves say."""

from __future__ import annotations

import re

import pytest

from simcluster import units
from simcluster.errors import TraceError
from simcluster.report import Comparison, comparison_html, comparison_page, comparison_text
from simcluster.report.comparison.comparison import signed
from simcluster.simulation import simulate
from tests.support.h100_scenarios import h100
from tests.support.html_page import Page

MESH = {"pipeline": 2, "data": 2, "tensor": 2}


def plan(name="kept", seq_len=4096, **options):
    sizes = {"hidden": 4096, "training": {"seq_len": seq_len}}
    return name, simulate(h100(MESH, name=name, recipe="megatron_sp", **sizes, **options))


@pytest.fixture(scope="module")
def kept():
    return plan()


@pytest.fixture(scope="module")
def pair(kept):
    return Comparison.of([kept, plan("again", recompute="all")])


def test_the_parts_of_both_steps_and_memories_add_up(pair):
    for index, side in enumerate(pair.sides):
        assert sum(row.values[index] for row in pair.step) == pytest.approx(side.summary["step_time_s"])
        assert sum(row.values[index] for row in pair.memory) == side.fullest["total"]


def test_changes_are_differences_of_the_two_results(pair):
    (trade,) = pair.trades
    one, other = pair.sides
    assert trade.speed == pytest.approx(one.summary["step_time_s"] / other.summary["step_time_s"])
    memory = dict(trade.memory)
    kept = [side.fullest["breakdown"]["activations"] for side in pair.sides]
    assert memory["activations"] == kept[1] - kept[0] < 0
    assert dict(trade.time)["compute"] == other.summary["compute_s"] - one.summary["compute_s"] > 0


def test_it_says_what_was_bought_and_what_it_cost(pair):
    less, more = pair.trades[0].sentences
    assert re.match(r"less: .*activations -[\d.]+ [KMG]iB", less)
    assert re.match(r"more: .*compute \+[\d.]+ [mu]?s", more)


def test_only_what_differs_between_the_plans_is_listed(pair):
    assert pair.differences == [("plan", ("", "recompute all layers"))]


def test_a_plan_beside_itself_has_no_difference(kept):
    found = Comparison.of([kept, kept, kept])
    assert not found.differences
    assert not found.caveats
    assert all(trade.speed == 1 and not trade.sentences for trade in found.trades)
    assert {row.change(2) for row in (*found.figures, *found.step, *found.memory)} == {"same"}


def test_another_batch_or_cluster_is_told(kept, alone):
    found = Comparison.of([kept, plan("long", seq_len=8192), ("alone", alone)])
    assert found.caveats == [
        "not the same tokens a step: A 65,536, B 131,072, C 4,096; compare tokens/s per device"
    ]
    assert found.trades[0].speed == pytest.approx(
        found.sides[1].summary["tokens_per_s_per_device"] / found.sides[0].summary["tokens_per_s_per_device"]
    )


def test_axes_keep_their_colours_in_every_bar(kept):
    found = Comparison.of([kept, plan("other", optimizer_sharding={"zero": 3})])
    for row in found.step:
        assert len({part.tone for part in row.parts}) == 1
    tones = [row.parts[0].tone for row in found.step if row.name.endswith("communication")]
    assert len(set(tones)) == len(tones) > 1


@pytest.mark.parametrize("width", [64, 80, 100, 120])
@pytest.mark.parametrize("colour", [False, True])
def test_the_text_has_every_figure_and_keeps_to_its_width(pair, width, colour):
    text = comparison_text(pair, width=width, colour=colour)
    plain = re.sub(r"\x1b\[[\d;]*m", "", text)
    assert ("\x1b" in text) == colour
    assert max(map(len, plain.splitlines())) <= width
    for row in (*pair.figures, *pair.step, *pair.memory):
        for value in row.values:
            assert row.reading(value) in plain, row.name


def test_the_page_is_whole_and_safe(pair, misfit):
    page = Page(comparison_page(pair))
    assert not page.open
    words = " ".join(page.words)
    for row in (*pair.figures, *pair.step, *pair.memory):
        assert row.change(1) in words
    assert sum(tag == "svg" for tag, _ in page.seen) == 2
    odd = comparison_html(Comparison.of([("[red]<b>", misfit), ("[red]<b>", misfit)]))
    assert "[red]<b><" not in odd
    assert "DOES NOT FIT" in odd
    assert "DOES NOT FIT" in comparison_text(Comparison.of([("x", misfit), ("y", misfit)]))


def test_the_document_has_the_same_figures(pair):
    found = pair.document()
    assert found["step_s"]["compute"] == [side.summary["compute_s"] for side in pair.sides]
    assert found["fits"] == [True, True]
    assert found["differences"] == {"plan": ["", "recompute all layers"]}


def test_one_result_is_no_comparison(kept):
    with pytest.raises(TraceError, match="give 2 to 26"):
        Comparison.of([kept])


def test_changes_read_with_their_sign():
    assert signed(1.5, units.seconds) == "+1.50 s"
    assert signed(-(2.0**30), units.size) == "-1.00 GiB"
    assert signed(0.0, units.size) == "same"
