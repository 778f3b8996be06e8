from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simcluster.draw import schedule_layout


def gpipe(stages, batches):
    row = " ".join([*(f"F{b}" for b in range(batches)), *(f"B{b}" for b in range(batches))])
    return "\n".join([row] * stages)


def one_f_one_b(stages, batches):
    rows = []
    for stage in range(stages):
        warm = min(stages - stage, batches)
        words = [f"F{b}" for b in range(warm)]
        for b in range(batches):
            words.append(f"B{b}")
            if warm + b < batches:
                words.append(f"F{warm + b}")
        rows.append(" ".join(words))
    return "\n".join(rows)


@pytest.mark.parametrize("make", [gpipe, one_f_one_b])
@given(
    stages=st.integers(1, 6), batches=st.integers(1, 9), forward=st.integers(1, 3), backward=st.integers(1, 4)
)
@settings(max_examples=40)
def test_closed_form_of_gpipe_and_1f1b(make, stages, batches, forward, backward):
    found = schedule_layout(make(stages, batches), {"F": forward, "B": backward})
    assert max(row[-1].end for row in found) == (batches + stages - 1) * (forward + backward)


@given(st.integers(1, 5), st.integers(1, 8))
def test_actions_keep_their_order_and_their_dependencies(stages, batches):
    found = schedule_layout(one_f_one_b(stages, batches))
    at = {(stage, slot.label): slot for stage, row in enumerate(found) for slot in row}
    for row in found:
        assert all(a.end <= b.start for a, b in pairwise(row))
    for (stage, label), slot in at.items():
        before = (stage - 1, label) if label[0] == "F" else (stage + 1, label)
        assert before not in at or at[before].end <= slot.start
        if label[0] == "B":
            assert at[stage, f"F{label[1:]}"].end <= slot.start


def test_chunks_go_around():
    found = schedule_layout("F0 F0c1 B0c1 B0\nF0 F0c1 B0c1 B0")
    assert [(slot.label, slot.start) for slot in found[0]] == [
        ("F0", 0),
        ("F0c1", 2),
        ("B0c1", 6),
        ("B0", 10),
    ]
    assert [(slot.label, slot.start) for slot in found[1]] == [("F0", 1), ("F0c1", 3), ("B0c1", 4), ("B0", 8)]


def test_halves_of_the_backward_pass():
    found = schedule_layout("F0 I0 W0\nF0 I0 W0")
    assert [slot.start for slot in found[0]] == [0, 3, 4]
    assert [slot.start for slot in found[1]] == [1, 2, 3]


def test_overlapped_pairs_take_the_time_of_both_and_finish_both():
    found = schedule_layout("F0 F1&B0\nF0 B0 F1")
    assert [(slot.kind, slot.start, slot.length) for slot in found[0]] == [("F", 0, 1), ("FB", 4, 3)]
    assert found[1][2].start == 7


def test_folded_chunks_turn_on_the_last_stage():
    text = "F0 F0c1 I0c1 I0 W0c1 W0\nF0 F0c1 B0c1 B0"
    found = schedule_layout(text, places=[(0, 0), (1, 0), (1, 1), (0, 1)])
    assert [(slot.label, slot.start) for slot in found[0]] == [
        ("F0", 0),
        ("F0c1", 3),
        ("I0c1", 4),
        ("I0", 9),
        ("W0c1", 10),
        ("W0", 11),
    ]
    assert [(slot.label, slot.start) for slot in found[1]] == [("F0", 1), ("F0c1", 2), ("B0c1", 5), ("B0", 7)]


def test_what_cannot_run_is_drawn_all_the_same():
    found = schedule_layout("B0 F0\nF0 B0")
    assert [len(row) for row in found] == [2, 2]


def test_unknown_words_take_a_unit():
    assert [(slot.label, slot.kind, slot.length) for slot in schedule_layout("what F0")[0]] == [
        ("what", "", 1),
        ("F0", "F", 1),
    ]


def test_nothing():
    assert schedule_layout("") == []
