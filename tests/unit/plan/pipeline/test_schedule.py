from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simcluster.errors import PlanError
from simcluster.plan.pipeline.schedule import Action, activation_peaks, parse, render, validate_schedule
from simcluster.plan.pipeline.virtual_stages import VirtualStages
from simcluster.plan.schedules.gpipe import GPipe
from simcluster.plan.schedules.interleaved import Interleaved
from simcluster.plan.schedules.one_f_one_b import OneFOneB
from simcluster.plan.schedules.text import FOLDED, TextSchedule

small = st.integers(0, 300)
single = st.builds(Action, st.sampled_from("FBIWR"), small, small, small)
actions = st.one_of(single, st.builds(Action, st.sampled_from("FBIWR"), small, small, small, single))
timetables = st.lists(st.lists(actions, min_size=1, max_size=6).map(tuple), min_size=1, max_size=4).map(tuple)


@given(actions)
def test_an_action_is_its_text(action):
    assert Action.parse(str(action)) == action


@given(timetables)
@settings(max_examples=40)
def test_a_timetable_is_its_text(timetable):
    assert parse(render(timetable)) == timetable
    assert render(parse(render(timetable))) == render(timetable)


@pytest.mark.parametrize(
    "text",
    ["F3", "B12", "I0", "W7", "R1", "F3c1", "F3s2", "F3c1s2", "F3&B1", "F3c1&B1s2", "F6&F7&B2&B3"],
)
def test_text_is_read_and_written_alike(text):
    assert str(Action.parse(text)) == text


def test_text_says_kind_micro_batch_chunk_and_slice():
    assert Action.parse("F3c1s2&B4") == Action("F", 3, 1, 2, Action("B", 4))


@pytest.mark.parametrize(
    "text",
    ["", "3", "F", "X3", "F-1", "f3", "F3c", "F3s1c2", "F3 B1", "F3&", "F3&B1&", "F3&&B1", "&F3", "F3x"],
)
def test_other_text_is_refused_with_the_accepted_form(text):
    with pytest.raises(PlanError, match="is not an action") as caught:
        Action.parse(text)
    assert "F3, B3, I3, W3 or R3" in caught.value.problems[0].hint


def test_a_timetable_has_a_line_per_stage():
    text = "F0 F1 B0 B1\nF0 B0 F1 B1"
    assert render(OneFOneB().timetable(2, 2)) == text
    assert parse(f"\n  {text}\n") == OneFOneB().timetable(2, 2)


def test_in_pairs_backwards_run_beside_the_forwards_that_follow():
    text = "F0 F1 F2 F3&B0 B1 B2 B3\nF0 F1&B0 F2&B1 F3&B2 B3"
    assert render(OneFOneB(pairs=True).timetable(2, 4)) == text
    chunked = render(Interleaved(2, pairs=True).timetable(2, 4)).splitlines()
    assert chunked[1] == "F0 F1 F0c1 F1c1&B0c1 F2&B1c1 F3&B0 F2c1&B1 F3c1&B2c1 B3c1 B2 B3"


# -- what check finds -----------------------------------------------------------------------------------

GOOD = "F0 F1 F2 B0 B1 B2\nF0 F1 B0 F2 B1 B2\nF0 B0 F1 B1 F2 B2"


def test_a_good_timetable_passes():
    validate_schedule(parse(GOOD), 3)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (GOOD.replace("F0 B0 F1", "B0 F1"), "stage 2 must run F and B once"),
        (GOOD.replace("F0 B0 F1", "F0 B0 B0 F1"), "stage 2 must run F and B once"),
        (GOOD.replace("F0 B0 F1", "F0 F0 B0 F1"), "stage 2 must run F and B once"),
        (GOOD.replace("B1 B2\nF0 F1", "B1\nF0 F1"), "stage 0 must run F and B once"),
        (GOOD.replace("F2 B0 B1", "F3 B0 B1"), "stage 0 must run F and B once"),
        (GOOD + " F3 B3", "stage 2 must run F and B once"),
        (GOOD.replace("F2 B1 B2", "F2 I1 W1 B2"), None),
        (GOOD.replace("F2 B1 B2", "F2 I1 B2"), "stage 1 must run F and B once"),
        (GOOD.replace("F2 B1 B2", "F2 W1 B2"), "I1 is missing"),
        (GOOD.replace("F2 B1 B2", "F2 W1 I1 B2"), "cannot run to its end: stage 0 at B1; stage 1 at W1"),
        (GOOD.replace("F2 B1 B2", "F2&B1 B2"), None),
        (
            GOOD.replace("F0 B0", "F0&B0"),
            "cannot run to its end: stage 0 at B0; stage 1 at B0; stage 2 at F0&B0",
        ),
        (GOOD.replace("F0 F1 B0 F2", "F0 F1 R0 B0 F2"), None),
        (GOOD.replace("F0 F1 B0 F2", "F0 R0 F1 R0 B0 F2"), "R0 is too much"),
        (GOOD.replace("F0 F1 B0 F2", "F0 F1 R3 B0 F2"), "R3 is too much"),
        (
            GOOD.replace("F0 F1 B0 F2", "F0 R1 F1 B0 F2"),
            "cannot run to its end: stage 0 at B0; stage 1 at R1",
        ),
        (
            GOOD.replace("F0 F1 B0 F2", "F0 F1 B0 R0 F2"),
            "cannot run to its end: stage 0 at B0; stage 1 at B0",
        ),
        (GOOD.replace("F0 F1 B0 F2", "F0 F1c1 B0 F2"), "stage 1 must run F and B once"),
        (GOOD.replace("F0 F1 B0 F2", "F0 F1s1 B0 F2"), "stage 1 must run F and B once"),
        (GOOD.replace("F0 F1 B0 F2", "F0 F1&R0 B0 F2"), None),
        (
            GOOD.replace("F0 B0 F1", "B0 F0 F1"),
            "cannot run to its end: stage 0 at B0; stage 1 at B0; stage 2 at B0",
        ),
        (
            GOOD.replace("F0 F1 B0 F2", "F0 B0 F1 F2").replace("F0 B0 F1 B1", "F0 F1 B0 B1"),
            "stage 1 at B0; stage 2",
        ),
        ("F0 B0 F1 B1\nF1 F0 B0 B1", "cannot run to its end: stage 0 at B0; stage 1 at F1"),
        ("F0 F1 B1 B0\nF0 F1 B0 B1", "stage 1 sends what B0 makes when stage 0 wants what B1 makes"),
        ("F0 F1 B0 B1\nF1 F0 B1 B0", "stage 0 sends what F0 makes when stage 1 wants what F1 makes"),
        ("F1 F0 B1 B0\nF1 F0 B1 B0", None),
    ],
)
def test_broken_timetables_are_found(text, message):
    if message is None:
        validate_schedule(parse(text), 3 if "F2" in text else 2)
        return
    with pytest.raises(PlanError) as caught:
        validate_schedule(parse(text), 3 if "F2" in text else 2)
    (problem,) = caught.value.problems
    assert message in problem.message
    assert problem.path == "parallel.schedule"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("F0 F0s1 B0s1 B0\nF0 F0s1 B0s1 B0", ""),
        ("F0 F0s1 I0s1 I0 W0 W0s1\nF0 F0s1 B0s1 B0", ""),
        (
            "F0 F0s1 B0s1 B0\nF0 F0s1 B0s1",
            "stage 1 must run F and B once for each of 1 micro-batches of 2 slices",
        ),
        ("F0s1 F0 B0s1 B0\nF0s1 F0 B0s1 B0", "stage 0 at F0s1; stage 1 at F0s1"),
        ("F0 F0s1 B0 B0s1\nF0 F0s1 B0 B0s1", "stage 0 at B0; stage 1 at B0"),
    ],
)
def test_slices_go_forward_in_order_and_back_the_other_way_round(text, message):
    if not message:
        validate_schedule(parse(text), 1, num_slices=2)
        return
    with pytest.raises(PlanError, match=message):
        validate_schedule(parse(text), 1, num_slices=2)


def runs(timetable) -> bool:
    """Whether the actions can be put in one order: a search over all ways to go on, stage by stage."""
    done: set = set()
    places = [0] * len(timetable)
    while True:
        moved = False
        for stage, actions in enumerate(timetable):
            if places[stage] == len(actions):
                continue
            action = actions[places[stage]]
            needs = {(stage, "F", action.micro_batch)} if action.kind == "B" else set()
            other = stage - 1 if action.kind == "F" else stage + 1
            if 0 <= other < len(timetable):
                needs.add((other, action.kind, action.micro_batch))
            if needs <= done:
                done.add((stage, action.kind, action.micro_batch))
                places[stage] += 1
                moved = True
        if not moved:
            return all(place == len(actions) for place, actions in zip(places, timetable, strict=True))


@given(st.integers(1, 3), st.integers(1, 3), st.data())
def test_check_finds_exactly_the_orders_that_cannot_run(stages, micro_batches, data):
    whole = [Action(kind, index) for kind in "FB" for index in range(micro_batches)]
    timetable = tuple(tuple(data.draw(st.permutations(whole))) for _ in range(stages))
    orders = [[[each for each in actions if each.kind == kind] for actions in timetable] for kind in "FB"]
    if not runs(timetable):
        with pytest.raises(PlanError, match="cannot run to its end"):
            validate_schedule(timetable, micro_batches)
    elif any(order[0] != other for order in orders for other in order):
        with pytest.raises(PlanError, match="both must have the same order"):
            validate_schedule(timetable, micro_batches)
    else:
        validate_schedule(timetable, micro_batches)


CHUNKS = "F0 F1 F0c1 B0c1 F1c1 B1c1 B0 B1\nF0 F0c1 F1 F1c1 B0c1 B0 B1c1 B1"


def test_a_timetable_of_chunks_goes_the_way_of_its_chain():
    validate_schedule(parse(CHUNKS), 2, VirtualStages.v_shape(2))
    with pytest.raises(PlanError, match="cannot run to its end: stage 0 at B0c1; stage 1 at F1c1"):
        validate_schedule(parse(CHUNKS), 2, VirtualStages.round_robin(2, 2))
    with pytest.raises(PlanError, match="stage 0 must run F and B once for each of 2 micro-batches and 3"):
        validate_schedule(parse(CHUNKS), 2, VirtualStages.round_robin(2, 3))


def test_activations_live_until_the_last_half_of_their_backward():
    assert activation_peaks(
        parse("F0 F1 B0 B1\nF0 I0 F1 W0 I1 W1\nF0 F0c1 I0c1 I0 W0 F1 B1 W0c1 F1c1 B1c1")
    ) == [
        2,
        2,
        2,
    ]


# -- chains ---------------------------------------------------------------------------------------------


@given(st.integers(1, 6), st.integers(1, 4))
def test_a_wrapped_chain_goes_round(stages, chunks):
    chain = VirtualStages.round_robin(stages, chunks)
    assert [chunk * stages + stage for stage, chunk in chain.places] == list(range(len(chain)))
    assert (chain.num_stages, chain.num_chunks) == (stages, chunks)
    steps = [chain.step(virtual) for virtual in range(len(chain) - 1)]
    if stages > 2:
        assert set(steps) <= {1}
    elif stages == 1:
        assert set(steps) <= {0}
        assert [chain.arrival(virtual) for virtual in range(len(chain))] == [0] * chunks


@given(st.integers(1, 6))
def test_a_folded_chain_turns_at_the_last_stage(stages):
    chain = VirtualStages.v_shape(stages)
    assert [stage for stage, _ in chain.places] == [*range(stages), *reversed(range(stages))]
    assert [chain.step(virtual) for virtual in range(2 * stages - 1)] == [1] * (stages - 1) + [0] + [-1] * (
        stages - 1
    )
    assert chain.arrival(stages) == stages - 1
    listed = chain.by_chunk(range(2 * stages))
    assert listed == (tuple(range(stages)), tuple(range(2 * stages - 1, stages - 1, -1)))
    assert chain.by_virtual(listed) == tuple(range(2 * stages))


@pytest.mark.parametrize("kind", [GPipe, OneFOneB])
def test_schedules_are_checked_when_they_are_made(kind):
    class BackwardFirst(kind):
        def stage(self, stage, num_stages, num_micro_batches):
            return (Action("B", 0), Action("F", 0))

    with pytest.raises(PlanError, match="cannot run to its end"):
        BackwardFirst().timetable(1, 1)


def test_a_written_schedule_is_folded_with_two_chunks_and_no_other_number():
    assert TextSchedule(CHUNKS, FOLDED).chain(2) == VirtualStages.v_shape(2)
    assert TextSchedule(CHUNKS).chain(2) == VirtualStages.round_robin(2, 2)
    for others, count in (("F0 B0", 1), ("F0 F0c1 F0c2 B0c2 B0c1 B0", 3)):
        with pytest.raises(PlanError, match=f"has 2 chunks on every stage, but the schedule names {count}"):
            TextSchedule(others, FOLDED).chain(2)
