"""What travels together in a bucket, and behind whose backward its gradients are ready."""

from __future__ import annotations

from simcluster.layout import Movement, MovementKind
from simcluster.model import Block, Graph, Instance, Node
from simcluster.program.buckets.gradient_buckets import GradientBucket, bucket_steps, crossing_ties
from simcluster.program.buckets.reduction_triggers import ReductionTrigger

SUM = Movement(MovementKind.ALL_REDUCE, ("data",))
OTHER = Movement(MovementKind.ALL_REDUCE, ("expert",))


def reduction(name, *movements):
    return tuple(
        Node(f"{name}.{place}", movement, (f"{name}{place}",), (f"{name}{place + 1}",))
        for place, movement in enumerate(movements)
    )


def launched(nodes):
    return [(node.inputs[0], node.kernel) for node in nodes]


def test_equal_collectives_of_a_step_are_one_launch_and_second_steps_come_after_all_first_ones():
    steps = bucket_steps([reduction("a", SUM, OTHER), reduction("b", SUM), reduction("c", OTHER, OTHER)])
    assert launched(steps) == [
        ("a0", "all_reduce"),
        ("b0", "all_reduce"),
        ("c0", "step0.1.all_reduce"),
        ("a1", "step1.0.all_reduce"),
        ("c1", "step1.0.all_reduce"),
    ]


def test_a_prefix_tells_the_launches_of_two_buckets_apart():
    assert launched(bucket_steps([reduction("a", SUM)], "1.")) == [("a0", "1.all_reduce")]


def instances(*names):
    return [Instance(name, name, (), place, 0) for place, name in enumerate(names)]


def test_a_reduction_waits_for_the_last_copy_of_a_tied_parameter_and_for_what_is_scattered_with_it():
    head, layer, embedding = backward = instances("head", "layer", "embedding")
    scattered = GradientBucket(Block("b", (), (), (), (), {"layer.w.grad": None}, ()), layer.name)
    trigger = ReductionTrigger.of(backward, {embedding.name: head.name}, [scattered])
    assert trigger.behind("head", []) == "embedding"
    assert trigger.behind("embedding", []) == "embedding"
    alone = ReductionTrigger.of(backward, {}, [scattered])
    assert alone.behind("head", ["head.w.grad"]) == "head"
    assert alone.behind("head", ["layer.w.grad"]) == "layer"


def test_ties_within_a_stage_cross_nothing():
    def tied(stages):
        blocks = {
            name: Block(name, (), (), (), ("w",), {}, (), {"w": "w.grad"}) for name in ("first", "last")
        }
        pair = tuple(Instance(name, name, (), stage, 0) for name, stage in zip(blocks, stages, strict=True))
        return Graph(blocks, pair, ties=(("first.w", "last.w"),))

    assert crossing_ties(tied((0, 0))) == {}
    assert crossing_ties(tied((0, 1))) == {("first", "w.grad"): 0, ("last", "w.grad"): 0}
