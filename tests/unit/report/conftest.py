"""Runs that the tests of reports share: each is simulated once."""

from __future__ import annotations

import pytest

from simcluster.simulation import simulate
from tests.support.h100_scenarios import h100

GIB = 2**30


@pytest.fixture(scope="session")
def run():
    """Four stages, ZeRO-1, two steps."""
    return simulate(
        h100(
            {"pipeline": 4, "data": 2, "tensor": 2},
            recipe="megatron_sp",
            optimizer_sharding={"zero": 1},
            run={"steps": 2},
        )
    )


@pytest.fixture(scope="session")
def unfolded():
    """Every rank by itself."""
    return simulate(h100({"pipeline": 2, "data": 2, "tensor": 2}, micro_batches=3), unfold=True)


@pytest.fixture(scope="session")
def alone():
    """One stage, no communication but over data."""
    return simulate(h100({"data": 8}, micro_batches=2))


@pytest.fixture(scope="session")
def deep():
    """Sixteen stages."""
    return simulate(h100({"pipeline": 16, "tensor": 8}, layers=16, micro_batches=16))


@pytest.fixture(scope="session")
def misfit():
    """A model that is too large for the first of two stages."""
    return simulate(
        h100(
            {"pipeline": 2, "tensor": 4}, layers=24, hidden=8192, training={"seq_len": 16384}, name="[red]<b>"
        )
    )


@pytest.fixture(scope="session", params=["run", "unfolded", "alone", "deep", "misfit"])
def any_run(request):
    """Each of the runs above."""
    return request.getfixturevalue(request.param)
