"""The vocabulary on all stages: what is put there, and the order of its passes."""

from __future__ import annotations

from collections import Counter

import pytest

from simcluster.errors import PlanError
from simcluster.model import INPUT_LAYER, OUTPUT_LAYER, Transformer
from simcluster.plan.pipeline import parse, place, render, spread_vocabulary
from simcluster.plan.pipeline.schedule import activation_peaks
from simcluster.plan.schedules.one_f_one_b import OneFOneB
from simcluster.plan.schedules.v_half import VHalf
from simcluster.work import DType

OPERATORS = ("embedding.tokens", "head.logits")


def graph(**dims):
    sizes = {"layers": 4, "hidden": 8, "heads": 2, "kv_heads": 2, "head_dim": 4, "ffn": 16, "vocab": 32}
    model = Transformer(**sizes, **dims)
    return place(model.graph(1, 4, DType.FP32, 4), (2, 2))


def test_what_uses_the_vocabulary_is_on_all_stages_and_the_last_norm_stays():
    spread = spread_vocabulary(graph(), OPERATORS, "two_barriers", 2)
    chunks = {one.name: one.chunk for one in spread.instances if "layers" not in one.name}
    assert chunks == {"embedding": INPUT_LAYER, "head.local": 0, "head": OUTPUT_LAYER}
    norm, head = spread.instances[-2:]
    assert head.inputs == tuple(norm.output(value) for value in spread.block_of(norm).outputs)
    assert norm.stage == head.stage == 1
    assert spread.block_of(head).parameters == ("logits.weight",)
    kinds = [node.operator.kind for node in spread.block_of(head).nodes]
    assert kinds == ["matmul", "cross_entropy_of_parts"]


def test_tied_parameters_are_refused():
    with pytest.raises(PlanError, match="one tied parameter"):
        spread_vocabulary(graph(tied=True), OPERATORS, "interlaced", 2)


def test_a_model_without_one_lookup_and_one_output_layer_is_refused():
    with pytest.raises(PlanError, match="one embedding and one output layer"):
        spread_vocabulary(graph(), (), "interlaced", 2)


@pytest.mark.parametrize("stages", [2, 3, 4, 8])
def test_stages_hold_as_many_micro_batches_as_the_paper_says(stages):
    """arXiv 2411.05288: two barriers cost two micro-batches, and interlaced holds half as many again."""
    many = 4 * stages
    two = OneFOneB(vocabulary="two_barriers").timetable(stages, many)
    assert activation_peaks(two) == [stages - stage + 2 for stage in range(stages)]
    one = OneFOneB(vocabulary="one_barrier").timetable(stages, many)
    assert activation_peaks(one) == [stages - stage + 1 for stage in range(stages)]
    interlaced = OneFOneB(vocabulary="interlaced").timetable(stages, many)
    assert max(activation_peaks(interlaced)) == stages * 3 // 2
    folded, plain = (VHalf(vocabulary=one).timetable(stages, many) for one in ("two_barriers", None))
    assert max(activation_peaks(folded)) == max(activation_peaks(plain)) + 4


SCHEDULES = [
    *(OneFOneB(vocabulary=method) for method in ("two_barriers", "one_barrier", "interlaced")),
    VHalf("two_barriers"),
]


@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
@pytest.mark.parametrize(("stages", "many"), [(2, 1), (3, 2), (4, 9)])
def test_every_stage_runs_every_pass_of_the_vocabulary_once_and_in_order(schedule, stages, many):
    timetable = schedule.timetable(stages, many)
    for actions in timetable:
        passes = [str(action) for action in actions if action.chunk < 0]
        counted = Counter(passes)
        assert set(counted.values()) == {1}
        every = range(many)
        split = schedule.vocabulary == "one_barrier"
        kinds = {"v": "FIW" if split else "FB", "e": "FB"}
        pairs = [(kind, end) for end, letters in kinds.items() for kind in letters]
        assert set(counted) == {f"{kind}{index}{end}" for kind, end in pairs for index in every}
        for kind, end in pairs:
            own = [name for name in passes if name[0] == kind and name[-1] == end]
            assert own == [f"{kind}{index}{end}" for index in every]
    assert render(parse(render(timetable))) == render(timetable)


def test_one_barrier_has_product_and_loss_in_one():
    spread = spread_vocabulary(graph(), OPERATORS, "one_barrier", 2)
    (node,) = spread.block_of(spread.instances[-1]).nodes
    assert (node.operator.kind, node.operator.block) == ("output_layer_loss", 16)
    assert node.inputs[1:] == ("logits.weight", "targets")


def test_logits_before_their_cast_have_a_name_of_their_own():
    """Otherwise the fp32 logits would count as what the product made, with half of their bytes."""
    model = Transformer(
        layers=4, hidden=8, heads=2, kv_heads=2, head_dim=4, ffn=16, vocab=32, logits=DType.FP32
    )
    placed = place(model.graph(1, 4, DType.BF16, 4), (2, 2))
    spread = spread_vocabulary(placed, OPERATORS, "one_barrier", 2)
    (node,) = spread.block_of(spread.instances[-1]).nodes
    parts = node.operator.decompose(frozenset({"vocab"})).parts
    made = {value for *_, values in parts for value in values}
    inside = {f"{node.name}.{value}" for value in made if not value.startswith("out")}
    assert inside.isdisjoint(node.outputs)
