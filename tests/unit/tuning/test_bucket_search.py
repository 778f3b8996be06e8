"""Which buckets are kept of those that are tried, with step times that are made up."""

from __future__ import annotations

from dataclasses import dataclass, field

from simcluster.plan import SINGLE_BUCKET, Buckets
from simcluster.tuning.bucket_ready_times import BestBuckets, BucketItem
from simcluster.tuning.bucket_search import _Search
from simcluster.tuning.searches import climb
from simcluster.tuning.trials import PlanTrial, PlanTrials

LAYERS = tuple(BucketItem(f"layers.{number}", f"g{number}", 100, number, ()) for number in range(5))


@dataclass
class Imagined(PlanTrials):
    """Step times by the buffers behind which buckets end; every bucket costs ten, every open border one."""

    cheap: frozenset[str] = frozenset()
    asked: list[object] = field(default_factory=list)

    def run(self, choice):
        self.asked.append(choice)
        ends = frozenset().union(*(buckets.closed_after for _, buckets in choice if buckets is not None))
        self.known[choice] = PlanTrial(choice, None, 10 + len(ends ^ self.cheap), (0,), 1)
        return self.known[choice], None


def search(cheap, operations=("all_reduce",)):
    found = _Search(operations, None, Imagined(None, None, None, cheap=frozenset(cheap)))
    found.lines = {name: BestBuckets(frozenset({"g1"}), ((LAYERS,),)) for name in operations}
    return found


def ends(choice):
    return {operation: set(buckets.closed_after) for operation, buckets in choice}


def test_borders_of_layers_are_tried_from_the_ends_inwards():
    lines = BestBuckets(frozenset(), ((LAYERS,),))
    assert lines.borders == ["g0", "g3", "g1", "g2"]
    assert lines.cut(Buckets(units=2)) == {"g1", "g3"}
    assert lines.most(frozenset({"g0", "g2"})) == 3


def test_a_climb_parts_and_joins_layers_until_nothing_is_faster():
    found = search({"g0", "g3"})
    choice = climb((("all_reduce", Buckets(closed_after=frozenset({"g1"}))),), found._border_by_border)
    assert ends(choice) == {"all_reduce": {"g0", "g3"}}


def test_a_climb_stops_when_its_steps_are_used_up():
    found = search({"g0", "g3"})
    found.steps = 1
    choice = climb((("all_reduce", Buckets(closed_after=frozenset({"g1"}))),), found._border_by_border)
    assert ends(choice) == {"all_reduce": {"g0", "g1"}}


def test_each_operation_takes_the_partition_that_is_exact_for_its_times_if_that_is_faster():
    found = search({"g1"}, ("all_reduce", "all_gather"))
    start = tuple((operation, SINGLE_BUCKET) for operation in found.operations)
    choice = climb(start, found._operation_by_operation)
    assert any(buckets == Buckets(closed_after=frozenset({"g1"})) for _, buckets in choice)
    assert found.trials.tried(choice).end == 10


def test_what_fits_comes_before_what_is_fast_and_the_first_of_equals_wins():
    def trial(choice, end, lacking):
        return PlanTrial(choice, None, end, (lacking,))

    trials = PlanTrials(None, None, None)
    trials.known = {"fast": trial("fast", 1, 5), "slow": trial("slow", 9, -1), "same": trial("same", 9, 0)}
    assert trials.best(["fast", "slow", "same"]) == "slow"
    assert trials.best(["same", "slow"]) == "same"
    assert trials.known["slow"].lacking == 0
