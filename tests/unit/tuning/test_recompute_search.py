"""How far every stage climbs its ladder of recomputation, on memories that are lists of numbers."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from simcluster.plan import RecomputeSpec
from simcluster.tuning.recompute_options import RecomputeOption
from simcluster.tuning.recompute_search import _Search
from simcluster.tuning.trials import PlanTrial


class Imagined(_Search):
    """A search over stages whose memory is a list: by how much it is exceeded at every position."""

    def imagine(self, curves):
        self.curves = curves
        self.asked = []
        self.stages = [[f"layers.{stage}.{index}" for index in range(4)] for stage in range(len(curves))]
        rungs = [RecomputeOption(frozenset({str(number)}), 10 * number, number) for number in range(1, 4)]
        self.ladders = dict.fromkeys((name for names in self.stages for name in names), rungs)
        return self

    def _tried(self, at):
        self.asked.append(at)
        excess = tuple(curve[position] for curve, position in zip(self.curves, at, strict=True))
        return PlanTrial(at, None, sum(at), excess)


END = 12
"""Four layers on three rungs."""


@given(st.lists(st.lists(st.integers(0, 100), min_size=END, max_size=END), min_size=1, max_size=3), st.data())
@settings(max_examples=40)
def test_every_stage_climbs_to_the_first_position_that_fits(drops, data):
    """Whatever saving a step brings, with as few trials as halving takes, and two for the guess."""
    curves = []
    for each in drops:
        start = data.draw(st.integers(-50, sum(each) + 50))
        curves.append([start - sum(each[:position]) for position in range(END + 1)])
    search = Imagined(RecomputeSpec(layers="auto"), None).imagine(curves)
    nothing = PlanTrial(None, None, 0, tuple(curve[0] for curve in curves))
    found = search._climbed(nothing, most=3)
    wanted = tuple(
        next((position for position, excess in enumerate(curve) if excess <= 0), END) for curve in curves
    )
    assert found.choice == wanted
    assert len(set(search.asked)) <= 1 + 2 + 4 + 1


def test_a_stage_whose_memory_another_one_fills_again_climbs_a_little_higher():
    """With the second stage recomputing, the first needs one layer more than alone."""

    class Coupled(Imagined):
        def _tried(self, at):
            trial = super()._tried(at)
            return PlanTrial(at, None, sum(at), (trial.excess[0] + (at[1] > 0), trial.excess[1]))

    search = Coupled(RecomputeSpec(layers="auto"), None).imagine([[2 - n for n in range(END + 1)]] * 2)
    nothing = PlanTrial(None, None, 0, (2, 2))
    assert search._climbed(nothing, most=3).choice == (3, 2)


def test_layers_and_operators_are_written_as_a_scenario_says_them():
    search = Imagined(RecomputeSpec(layers="auto"), None).imagine([[0] * (END + 1)])
    assert search._spec((0,)).layers == "none"
    assert search._spec((2,)).operators == ("layers.{0.0,0.1}.1",)
    search.ladders = {name: [RecomputeOption(frozenset(), 1, 1, whole=True)] for name in search.ladders}
    assert search._spec((2,)).layers == (2,)
    assert search._spec((4,)).layers == "all"
