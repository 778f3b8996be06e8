"""Unequal shares of the batch: who trains how much, what it costs, and that the gradients stay right."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simcluster.engine import Workload, run
from simcluster.errors import PlanError, SimulationError
from simcluster.layout import Mesh
from simcluster.plan.data.batch_shares import MicroBatches, micro_batches_of
from simcluster.plan.schedules.gpipe import GPipe
from simcluster.plan.schedules.one_f_one_b import OneFOneB
from simcluster.program import Executions, build, check_program, partition_ranks
from simcluster.program.lowering.phases import REDUCE
from simcluster.report.content.run_header import header_rows
from simcluster.scenario import Scenario
from simcluster.simulation import build_scenario, simulate, verify
from simcluster.simulation.verification.shrink_sizes import small_batches
from tests.support.covering import quick_at
from tests.support.pipelines import burning_graph, plan_of, quiet_cluster
from tests.support.scenarios import TINY_GPT, scenario, shrunk

F, B = 1_000_000, 2_000_000


def shared(mesh, shares, *, each=2, training=None, **parallel) -> Scenario:
    """Shares along data; a share of 1 is ``each`` micro-batches."""
    ways = mesh.get("expert", 1)
    given = {"batch_shares": {"data": shares}, "global_batch": sum(shares) * each * ways, **(training or {})}
    return scenario(mesh, devices=1, training=given, **parallel)


# -- who trains how much --------------------------------------------------------------------------------


def test_micro_batches_follow_the_shares():
    plan = build_scenario(shared({"data": 4}, [3, 3, 1, 1])).plan
    assert plan.pipeline.batches == MicroBatches("data", (6, 6, 2, 2))
    assert (plan.pipeline.batches.counts, plan.pipeline.batches.variants) == ((6, 2), (0, 0, 1, 1))
    assert plan.num_micro_batches == 6


def test_equal_shares_are_the_plan_without_shares():
    built = build_scenario(shared({"data": 2, "pipeline": 2}, [2, 2], each=1))
    plain = build_scenario(scenario({"data": 2, "pipeline": 2}, devices=1, micro_batches=2))
    assert built.program == plain.program
    assert built.program.digest() == plain.program.digest()


@pytest.mark.parametrize(
    ("training", "path", "words"),
    [
        (
            {"global_batch": 12, "batch_shares": {"data": [3, 1, 1, 1]}, "micro_batch": 4},
            "training.batch_shares.data.0",
            "a share of 3 of 6 of global batch 12 is not a whole number of micro-batches of 4 at coordinate "
            "0 of data: 12 x 3 / 6 / 4 = 1.5",
        ),
        ({"batch_shares": {"data": [3, 1]}}, "training.batch_shares.data", "2 shares for 4 coordinates"),
        ({"batch_shares": {"dat": [1, 1, 1, 1]}}, "training.batch_shares.dat", "not an axis along which"),
        (
            {"batch_shares": {"data": [2, 1, 1, 1], "tensor": [1]}},
            "training.batch_shares",
            "shares along data and tensor; give those of one axis",
        ),
    ],
)
def test_shares_that_do_not_fit(training, path, words):
    with pytest.raises(PlanError) as caught:
        build_scenario(scenario({"data": 4}, training=training))
    (problem,) = caught.value.problems
    assert problem.path == path
    assert words in problem.message


@pytest.mark.parametrize("sharding", ["fsdp", {"zero": 2}, {"zero": 3}])
def test_ranks_that_meet_in_every_micro_batch_need_equal_numbers(sharding):
    with pytest.raises(PlanError) as caught:
        build_scenario(shared({"data": 4}, [1, 1, 3, 1], optimizer_sharding=sharding))
    (problem,) = caught.value.problems
    assert problem.path == "training.batch_shares.data"
    assert "coordinate 2 of data has 6 of them and coordinate 0 has 2: 6 - 2 = 4 times" in problem.message


@settings(max_examples=40)
@given(
    shares=st.lists(st.integers(1, 5), min_size=2, max_size=4),
    others=st.integers(1, 3),
    outer=st.booleans(),
    size=st.integers(1, 2),
)
def test_rows_are_what_the_coordinates_train(shares, others, outer, size):
    """Every sample of a rank's share once, whether the shared axis is the outer or the inner one."""
    axes = ("data", "other") if outer else ("other", "data")
    mesh = Mesh.of({"other": others, "data": len(shares)})
    found = micro_batches_of(sum(shares) * size * others, size, {"data": shares}, axes, mesh)
    trained = np.zeros((found.most, len(shares) * others * size), dtype=int)
    for number, runs in enumerate(found.rows(mesh, axes, size)):
        for first, behind in runs:
            trained[number, first:behind] += 1
    shape = (len(shares), others) if outer else (others, len(shares))
    per_rank = trained.reshape(found.most, *shape, size)
    by_coordinate = per_rank.sum(axis=(0, 2, 3) if outer else (0, 1, 3))
    assert by_coordinate.tolist() == [share * size * others for share in shares]
    assert trained.max() == 1


# -- values ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mesh", "shares", "parallel"),
    quick_at(
        [
            ({"data": 3}, [1, 3, 2], {}),
            ({"pipeline": 3, "data": 2}, [3, 1], {"schedule": "gpipe"}),
            (
                {"pipeline": 2, "data": 2, "tensor": 2},
                [1, 2],
                {"recipe": "megatron_sp", "optimizer_sharding": {"zero": 1}, "model": TINY_GPT},
            ),
            (
                {"expert": 2, "data": 2},
                [3, 1],
                {"roles": {"batch": ["expert", "data"]}, "model": {**TINY_GPT, "dropout": 0.1}},
            ),
            ({"data": 2}, [1, 2], {"training": {"optimizer": {"kind": "adamw", "clip": 0.05}}}),
            ({"data": 2}, [1, 2], {"optimizer_sharding": {"mindspore": "level1", "min_bytes": "0 B"}}),
        ],
        1,
        3,
    ),
)
def test_gradients_are_those_of_one_device(mesh, shares, parallel):
    found = verify(shared(mesh, shares, **parallel))
    assert found.agrees, found.first_difference or found.fault


def test_equal_weights_of_unequal_shares_are_a_difference_that_verify_sees(monkeypatch):
    """Leaving out one sample of the larger share changes the loss: the oracle reads what the ranks read."""
    before = MicroBatches.rows

    def shorter(self, mesh, axes, size):
        rows = before(self, mesh, axes, size)
        return [*rows[:-1], [(first, behind - 1) for first, behind in rows[-1]]]

    monkeypatch.setattr(MicroBatches, "rows", shorter)
    found = verify(shared({"data": 2}, [1, 2], training={"micro_batch": 2, "global_batch": 12}))
    assert not found.agrees
    assert found.first_difference.what == "loss"


def test_the_small_form_keeps_shares_unequal():
    small = small_batches(MicroBatches("data", (48, 48, 16, 16)), Mesh.of({"data": 2}), 1)
    assert small.by_coordinate == (2, 1)
    small = small_batches(MicroBatches("data", (7, 9, 7, 1, 9)), Mesh.of({"data": 4}), 4)
    assert small.by_coordinate == (4, 5, 4, 1)
    found = shrunk(shared({"data": 128}, [3] * 64 + [1] * 64)).scenario.spec.training
    assert found.batch_shares == {"data": (*(2,) * 63, 1)}


# -- times ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("schedule", [GPipe(), OneFOneB()])
@pytest.mark.parametrize(("stages", "counts"), [(1, (5, 2)), (3, (8, 3)), (4, (2, 9, 4))])
def test_every_data_rank_has_the_closed_form_of_its_own_micro_batches(schedule, stages, counts):
    """(m + p - 1)(f + b), each with its own m."""
    ways = len(counts)
    plan = plan_of(
        burning_graph([F] * stages, [B] * stages),
        [schedule.timetable(stages, count) for count in counts],
        Mesh.of({"data": ways, "pipeline": stages}),
        batches=MicroBatches("data", counts),
    )
    program = build(plan)
    assert (program.num_stages, program.num_variants) == (stages, ways)
    cluster = quiet_cluster(stages * ways)
    classes = partition_ranks(program, cluster)
    check_program(program, classes)
    timing = run(Workload(program, cluster, classes))
    for coordinate, count in enumerate(counts):
        first = int(classes.of_rank[coordinate * stages])
        kernels = next(s for s in range(9) if timing.classes[first].part.streams[s].name == "compute")
        end = timing.classes[first].starts[kernels][-1] + B
        exact = (count + stages - 1) * (F + B)
        assert exact <= end <= exact + 4 * (count + stages)


def test_the_step_is_that_of_the_largest_share():
    """Equal devices: those with less wait, and the step is the one in which all train as much as the most."""
    plain = {"devices": 1, "recipe": "data"}
    uneven = simulate(shared({"data": 4}, [3, 3, 1, 1], recipe="data"))
    even = simulate(scenario({"data": 4}, micro_batches=6, **plain))
    few = simulate(scenario({"data": 4}, micro_batches=2, **plain))
    summary = uneven.documents["summary"]
    assert summary["step_time_s"] == even.documents["summary"]["step_time_s"]
    assert [each["ranks"] for each in uneven.documents["classes"]] == [2, 2]
    mean = (even.documents["summary"]["compute_s"] + few.documents["summary"]["compute_s"]) / 2
    assert summary["compute_s"] == pytest.approx(mean, rel=1e-12)
    unfolded = simulate(shared({"data": 4}, [3, 3, 1, 1], recipe="data"), unfold=True)
    assert unfolded.documents["summary"]["step_time_s"] == summary["step_time_s"]


def test_parts_that_reduce_in_different_orders_are_found():
    built = build_scenario(shared({"data": 2}, [2, 1], micro_batches=2))
    program = built.program
    part = program.parts[1]
    reduced = [i for i, e in enumerate(part.executions) if program.codes[e.code].phase == REDUCE]
    executions = list(part.executions)
    one, other = next(
        (a, b) for a in reduced for b in reduced if executions[a].code != executions[b].code and a < b
    )
    executions[one], executions[other] = executions[other], executions[one]
    broken = replace(program, parts=(program.parts[0], replace(part, columns=Executions.of(executions))))
    with pytest.raises(SimulationError, match="over data issue different collectives"):
        check_program(broken, built.classes)


def test_the_headline_says_who_trains_how_much():
    documents = simulate(shared({"data": 4}, [3, 3, 1, 1])).documents
    told = dict(header_rows(documents))["batch"]
    assert "16 samples" in told
    assert "(2 x 6 + 2 x 2) micro-batches along data x 1" in told
    assert [each["micro_batches"] for each in documents["classes"]] == [6, 2]
    (many, few) = documents["plan"]["batch_shares"]["schedules"]
    assert (many["micro_batches"], few["text"]) == (6, "F0 B0 F1 B1")
