"""How far a knob is turned, with trials that are made up."""

from __future__ import annotations

import pytest

from simcluster.analysis import MemoryUse
from simcluster.tuning.memory_knobs import OpenKnob, nearest_change
from simcluster.tuning.trials import Trial


def test_a_turn_that_is_impossible_gives_way_to_a_smaller_one():
    class Stub:
        """Turn 3 is refused; 1 and 2 fit."""

        def run(self, kinds, changes):
            turn = int(changes[0][1])
            return Trial(tuple(kinds), changes, 1.0, MemoryUse(9 - turn, 0, 8), "no" if turn == 3 else "")

    found = nearest_change(Stub(), OpenKnob("knob", tuple((("key", str(turn)),) for turn in range(4))))
    assert found.changes == (("key", "1"),)
    assert found.fits


def test_a_knob_that_may_save_less_when_turned_further_is_turned_in_order():
    class Stub:
        """Turn 1 fits, the others lack more and more."""

        def __init__(self, fits):
            self.fits, self.tried = fits, []

        def run(self, kinds, changes):
            turn = int(changes[0][1])
            self.tried.append(turn)
            held = 8 if turn == self.fits else 9 + turn
            return Trial(tuple(kinds), changes, 1.0, MemoryUse(held, 0, 8))

    knob = OpenKnob("pipeline", tuple((("key", str(turn)),) for turn in range(3)), uneven=True)
    for fits, tried, answer in ((1, [0, 1], 1), (9, [0, 1, 2], 0)):
        stub = Stub(fits)
        assert nearest_change(stub, knob).changes == knob.turns[answer]
        assert stub.tried == tried


@pytest.mark.parametrize("first", range(6))
def test_the_smallest_turn_that_fits_is_found_by_halves(first):
    class Stub:
        """Turns from ``first`` on fit."""

        def __init__(self):
            self.tried = []

        def run(self, kinds, changes):
            self.tried.append(int(changes[0][1]))
            return Trial(tuple(kinds), changes, 1.0, MemoryUse(8 + first - self.tried[-1], 0, 8))

    stub = Stub()
    knob = OpenKnob("knob", tuple((("key", str(turn)),) for turn in range(5)))
    found = nearest_change(stub, knob)
    assert found.changes == knob.turns[min(first, 4)]
    assert found.fits == (first < 5)
    assert len(stub.tried) == len(set(stub.tried)) <= 4
