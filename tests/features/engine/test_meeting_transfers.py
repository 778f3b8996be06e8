"""Transfers that meet on links: program order as far as it goes, and events, against the reference."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simcluster.engine.communication import Background, CapacityChange
from simcluster.engine.communication.fabric import Late
from simcluster.engine.compiled.program_order import time_in_program_order
from simcluster.program.isa.instruction import COMPUTE
from simcluster.simulation.compose.build import build_scenario
from tests.support.event_equality import GB, crowded
from tests.support.implementations import assert_all_agree
from tests.support.scenarios import TINY, TINY_GPT, scenario

JITTER = {"devices": "all", "compute": {"normal": [1.0, 0.1]}}
PLANS = [{"pipeline": 2, "data": 2, "tensor": 2}, {"pipeline": 4, "data": 2}, {"data": 4}]


@settings(max_examples=10)
@given(data=st.data())
def test_random_plans_on_few_links(data):
    draw = data.draw
    which = scenario(
        draw(st.sampled_from(PLANS)),
        devices=draw(st.sampled_from([2, 4])),
        model=draw(st.sampled_from([TINY, TINY_GPT])),
        micro_batches=draw(st.integers(1, 4)),
        schedule={"kind": "1f1b", "p2p": draw(st.sampled_from(["overlapped", "blocking"]))},
        run={"steps": draw(st.sampled_from([1, 2])), "seed": draw(st.integers(0, 9))},
        changes=draw(st.sampled_from([[], [JITTER]])),
    )
    built = build_scenario(which, unfold=draw(st.booleans()))
    links = draw(st.integers(2, 5))
    moments = st.integers(1, 400_000)
    link = st.integers(0, links - 1)
    changes = draw(
        st.lists(st.builds(CapacityChange, moments, link, st.sampled_from([0.2 * GB, 3 * GB])), max_size=2)
    )
    background = draw(
        st.lists(st.builds(Background, link, st.sampled_from([0.1 * GB, 2 * GB]), moments), max_size=1)
    )
    lates = draw(
        st.sampled_from(
            [
                (),
                (Late(0, None, 300),),
                (Late(100_000, 200_000, 900),),
                (Late(0, None, 300), Late(100_000, 110_000, 7_000), Late(105_000, None, 20_000)),
            ]
        )
    )
    fabric = crowded(
        built,
        links=links,
        rate=draw(st.sampled_from([0.05, 1, 100])),
        lates=lates,
        latency=draw(st.sampled_from([0, 500, 30_000])),
        changes=tuple({(each.time, each.link): each for each in changes}.values()),
        background=tuple(background),
    )
    assert_all_agree(built, fabric=fabric)


@pytest.mark.parametrize("unfold", [False, True])
def test_rates_are_worked_out_anew(unfold):
    built = build_scenario(
        scenario({"pipeline": 2, "data": 2, "tensor": 2}, micro_batches=3, changes=[JITTER]), unfold=unfold
    )
    assert assert_all_agree(built, fabric=crowded(built, links=2, rate=0.05, lates=())).num_solves > 10


def test_waits_into_which_a_window_falls():
    """A window that opens while a transfer waits, or closes before it is through, or both."""
    built = build_scenario(scenario({"data": 4}, micro_batches=2, changes=[JITTER]), unfold=True)

    def moved(*lates):
        """Starts and ends of what the first rank moves, by events."""
        fabric = crowded(built, links=5, rate=100, lates=lates, latency=30_000)
        first = assert_all_agree(built, fabric=fabric).classes[0]
        return [
            (start, end)
            for each, starts, ends in zip(first.part.streams, first.starts, first.ends, strict=True)
            if each.name != COMPUTE
            for start, end in zip(starts.tolist(), ends.tolist(), strict=True)
            if end > start
        ]

    alone = moved()
    spent = sum(end - start for start, end in alone)
    for start, _ in alone[:3]:
        # Inside, 30 us of waiting take 80: 2 us of the window are 750 ns of them, and so on.
        for before, longer in ((-9_000, 1_250), (0, 6_875), (10_000, 6_875), (29_000, 1_667)):
            found = moved(Late(start + before, start + before + 11_000, 50_000))
            assert sum(end - start for start, end in found) - spent == longer


@pytest.mark.parametrize(("rate", "least", "most"), [(100, 1, 1), (0.4, 0.5, 0.9), (0.05, 0, 0.1)])
def test_many_classes_go_in_program_order_as_far_as_links_let_them(monkeypatch, rate, least, most):
    reached = []

    def looked(*arguments):
        reached.append(time_in_program_order(*arguments))
        return reached[-1]

    monkeypatch.setattr("simcluster.engine.compiled.run.time_in_program_order", looked)
    built = build_scenario(
        scenario({"pipeline": 4, "data": 2}, micro_batches=4, changes=[JITTER]), unfold=True
    )
    end = assert_all_agree(built, fabric=crowded(built, links=5, rate=rate, lates=())).end
    ((until, _),) = reached
    assert least <= min(1, until / end) <= most
