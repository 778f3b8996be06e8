"""Runs that the tests of reports share: each is simulated once."""

from __future__ import annotations

import pytest

from simcluster.scenario import Scenario
from simcluster.simulation import simulate

GIB = 2**30


def h100(mesh, *, name="small", layers=8, hidden=512, micro_batches=8, run=None, training=None, **parallel):
    """A small model on H100 hosts, as many as the mesh needs."""
    ranks = 1
    for size in mesh.values():
        ranks *= size
    return Scenario.of(
        {
            "simcluster": 1,
            "name": name,
            "cluster": {"use": "dgx-h100", "hosts": max(1, ranks // 8)},
            "model": {
                "layers": layers,
                "hidden": hidden,
                "heads": 8,
                "kv_heads": 8,
                "ffn": 4 * hidden,
                "vocab": 1000,
            },
            "training": {
                "global_batch": micro_batches * mesh.get("data", 1),
                "micro_batch": 1,
                "seq_len": 256,
                **(training or {}),
            },
            "parallel": {"mesh": mesh, **parallel},
            "run": run or {},
        }
    )


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


@pytest.fixture(params=["run", "unfolded", "alone", "deep", "misfit"])
def any_run(request):
    """Each of the runs above."""
    return request.getfixturevalue(request.param)
