"""Data parallelism written by hand against mode data, and against one device."""

from __future__ import annotations

import pytest

from simcluster.simulation import build_scenario, simulate, verify
from tests.support.manual import data_parallel, written


@pytest.mark.parametrize("ways", [1, 2, 4, 8])
@pytest.mark.parametrize("mean", [False, True])
@pytest.mark.parametrize("optimizer", ["sgd", "adamw"])
def test_it_computes_what_one_device_computes(ways, mean, optimizer):
    found = verify(written({"data": ways}, data_parallel(ways, mean=mean), training={"optimizer": optimizer}))
    assert found.agrees, found.first_difference or found.fault
    assert {each.what for each in found.comparisons} == {"loss", "gradient", "update"}


def test_without_its_gradients_reduced_it_does_not():
    program = data_parallel(4)
    program["gradients"] = []
    found = verify(written({"data": 4}, program))
    assert not found.agrees
    assert found.first_difference.what == "gradient"


def test_a_sum_where_a_mean_is_due_is_caught():
    program = data_parallel(4)
    program["gradients"] = [{"mean": False}]
    assert verify(written({"data": 4}, program)).first_difference.what == "gradient"


def test_the_loss_of_one_rank_is_not_that_of_all():
    program = data_parallel(4)
    program["loss"] = "own"
    assert verify(written({"data": 4}, program)).first_difference.what == "loss"


@pytest.mark.parametrize("micro_batches", [1, 2])
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("host", ["cpu-server", "dgx-h100", "atlas-800t-a2"])
def test_it_takes_as_long_as_mode_data(host, precision, micro_batches):
    """Gradients that are all-reduced by hand travel, and weigh, as those of mode data: the one difference is
    the loss, which mode data adds up behind the backward pass.
    """
    same = {"batch": 16, "micro_batches": micro_batches, "host": host, "training": {"precision": precision}}
    program = data_parallel(8, mean=False, group="data")
    program["operators"] = [each for each in program["operators"] if each["name"] != "total"]
    program["loss"] = "own"
    by_hand, derived = (written({"data": 8}, each, **same) for each in (program, None))
    left, right = (simulate(each).documents["summary"] for each in (by_hand, derived))
    assert left["compute_s"] == right["compute_s"]
    assert left["peak_memory_bytes_max"] == right["peak_memory_bytes_max"]
    (sums,) = (each["data"]["all_reduce"] for each in (left["communication_bytes"],))
    (wanted,) = (each["data"]["all_reduce"] for each in (right["communication_bytes"],))
    assert wanted - sums == pytest.approx(2 * 7 / 8 * 4)  # the loss, of four bytes
    assert left["step_time_s"] <= right["step_time_s"] < left["step_time_s"] * 1.01


def test_micro_batches_add_up():
    program = data_parallel(2, mean=False)
    assert verify(written({"data": 2}, program, micro_batches=4)).agrees


def test_ranks_that_do_the_same_are_simulated_once():
    built = build_scenario(written({"data": 8}, data_parallel(8)))
    assert len(built.classes) == 1
    assert len(built.program.parts) == 1
