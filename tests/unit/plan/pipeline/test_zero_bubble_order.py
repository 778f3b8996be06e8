"""Weight gradients that wait as long as memory leaves room: complete, within the limit, and late."""

from __future__ import annotations

from fractions import Fraction

from hypothesis import given, settings
from hypothesis import strategies as st

from simcluster.plan.pipeline import zero_bubble_actions


def levels(actions, share):
    """Activations held behind each action, in those of a forward."""
    changes = {"F": Fraction(1), "I": share - 1, "W": -share}
    held, after = Fraction(0), []
    for action in actions:
        held += changes[action.kind]
        after.append(held)
    return after


@settings(max_examples=40, deadline=None)
@given(
    stages=st.integers(1, 9),
    count=st.integers(1, 40),
    times=st.integers(1, 2),
    percent=st.integers(5, 100),
    data=st.data(),
)
def test_weight_gradients_wait_as_long_as_memory_leaves_room(stages, count, times, percent, data):
    stage, share = data.draw(st.integers(0, stages - 1)), Fraction(percent, 100)
    warmup, late, limit = times * (stages - stage - 1), times * stage, times * stages
    actions = zero_bubble_actions(count, warmup, late, limit, percent / 100)
    for kind in "FIW":
        assert [action.micro_batch for action in actions if action.kind == kind] == list(range(count))
    held = levels(actions, share)
    assert max(held) <= limit and held[-1] == 0
    last = max(index for index, action in enumerate(actions) if action.kind == "I")
    assert sum(action.kind == "W" for action in actions[last:]) <= late + 2
    # No weight gradient comes before it must: the next forward had no room, or the end is near.
    for index, action in enumerate(actions[:last]):
        if action.kind == "W":
            waiting = sum((other.kind == "I") - (other.kind == "W") for other in actions[:index])
            left = sum(other.kind == "I" for other in actions[index:])
            assert held[index - 1] + 1 > limit or waiting > late + left


def test_the_last_stage_fills_the_memory_of_all():
    """Two stages, half of the activations kept: there is room for a forward beside the halves of two."""
    text = " ".join(map(str, zero_bubble_actions(6, 0, 1, 2, 0.5)))
    assert text == "F0 I0 F1 I1 F2 I2 W0 F3 I3 W1 F4 I4 W2 F5 I5 W3 W4 W5"
