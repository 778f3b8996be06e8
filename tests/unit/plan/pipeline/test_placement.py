from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simcluster.errors import PlanError
from simcluster.model import Transformer
from simcluster.plan.pipeline.placement import default_layers, place
from simcluster.work import DType


@pytest.mark.parametrize(
    ("layers", "stages", "expected"),
    [
        (80, 16, (5,) * 16),
        (4, 1, (4,)),
        (126, 16, (7, *(8,) * 14, 7)),
        (6, 4, (1, 2, 2, 1)),
        (10, 4, (2, 3, 3, 2)),
        (7, 4, (2, 2, 2, 1)),
        (5, 4, (1, 2, 1, 1)),
        (9, 4, (2, 3, 2, 2)),
        (5, 2, (3, 2)),
        (8, 5, (1, 2, 2, 2, 1)),
        (7, 3, (2, 3, 2)),
        (6, 8, (0, 1, 1, 1, 1, 1, 1, 0)),
        (11, 6, (2, 2, 2, 2, 2, 1)),
    ],
)
def test_default_stages(layers, stages, expected):
    assert default_layers(layers, stages) == expected


@given(st.integers(1, 64), st.integers(1, 32))
def test_default_stages_are_as_even_as_they_can_be(layers, stages):
    if layers < stages and layers + 2 != stages:
        with pytest.raises(PlanError, match="every stage needs at least one layer"):
            default_layers(layers, stages)
        return
    found = default_layers(layers, stages)
    assert len(found) == stages
    assert sum(found) == layers
    assert max(found) - min(found) <= 1
    assert min(found) >= (layers + 2 != stages)
    larger = [stage for stage, count in enumerate(found) if count > min(found)]
    if len(larger) < stages and larger:
        assert larger == list(range(larger[0], larger[-1] + 1)), "the larger stages stand together"
        before, after = larger[0], stages - 1 - larger[-1]
        assert abs(before - after) <= 1, "in the middle"
    if stages > 2 and layers % stages and (layers + 2) % stages == 0:
        assert found[0] == found[-1] == found[1] - 1


def test_too_many_stages_say_how_many_fit():
    with pytest.raises(PlanError) as caught:
        default_layers(6, 9)
    (problem,) = caught.value.problems
    assert problem.message == "9 pipeline stages for 6 layers: every stage needs at least one layer"
    assert problem.path == "parallel.mesh.pipeline"
    assert problem.hint == "use at most 6 stages"


@pytest.mark.parametrize(
    ("stages", "chunks", "hint"),
    [
        (8, 20, "use at most 10 chunks or 4 stages"),
        (8, 100, "use at most 10 chunks"),
        (64, 2, "use at most 40 stages"),
        (90, 90, "use at most one chunk"),
    ],
)
def test_chunks_are_not_called_stages(stages, chunks, hint):
    with pytest.raises(PlanError) as caught:
        default_layers(80, stages * chunks, chunks)
    (problem,) = caught.value.problems
    assert problem.message == (
        f"{stages} pipeline stages x {chunks} chunks = {stages * chunks} for 80 layers: every chunk needs at "
        "least one layer"
    )
    assert problem.hint == hint


def graph(layers: int):
    model = Transformer(layers, hidden=8, heads=2, kv_heads=1, head_dim=4, ffn=16, vocab=32)
    return model.graph(batch=1, seq_len=4, dtype=DType.FP32, num_tokens=4)


def test_what_stands_before_the_layers_goes_first_and_what_follows_last():
    stages = {each.name: each.stage for each in place(graph(5), (1, 3, 1)).instances}
    assert stages == {
        "embedding": 0,
        "layers.0": 0,
        "layers.1": 1,
        "layers.2": 1,
        "layers.3": 1,
        "layers.4": 2,
        "head": 2,
    }


@pytest.mark.parametrize(("layers", "stages"), [((3, 0), [0, 0, 0, 0, 1]), ((0, 3), [0, 1, 1, 1, 1])])
def test_an_end_of_the_model_may_have_a_stage_of_its_own_beside_one_with_all_layers(layers, stages):
    assert [each.stage for each in place(graph(3), layers).instances] == stages


def test_placing_changes_nothing_else():
    before = graph(3)
    after = place(before, (2, 1))
    assert after.blocks is before.blocks
    assert [each.name for each in after.instances] == [each.name for each in before.instances]
    assert [each.inputs for each in after.instances] == [each.inputs for each in before.instances]


def test_stages_that_do_not_add_up_are_refused_with_the_sum():
    with pytest.raises(PlanError) as caught:
        place(graph(5), (2, 2))
    (problem,) = caught.value.problems
    assert problem.message == "2 + 2 = 4 layers in stages, but the model has 5"
    assert problem.path == "parallel.schedule.stages"
