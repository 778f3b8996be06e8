"""Runs that last longer than 64 bits of nanoseconds are refused in words, not timed wrongly."""

from __future__ import annotations

from dataclasses import replace

import pytest

from simcluster.engine import Implementation
from simcluster.errors import PlanError
from simcluster.simulation.compose.build import build_scenario
from tests.support.implementations import timed
from tests.support.random_runs import giving_way
from tests.support.scenarios import scenario

BOTH = (Implementation.REFERENCE, Implementation.COMPILED)
MESH = {"pipeline": 2, "data": 2, "tensor": 2}
WORDS = "the run takes longer than 292 years, all that 64 bits of nanoseconds hold"
MUCH = 1e9
"""How much slower memories are made, so that nothing else counts."""


def built(host):
    """A small training; kernels give way to communication on devices that say what it takes of them."""
    found = build_scenario(scenario(MESH, host=host))
    return giving_way(found) if host == "dgx-h100" else found


def slower(which, factor):
    """The same on devices whose memories are so much slower."""
    (group,) = which.cluster.groups
    device = group.host.device
    device = replace(device, memory_bandwidth=device.memory_bandwidth / factor)
    host = replace(group.host, device=device)
    return replace(which, cluster=replace(which.cluster, groups=(replace(group, host=host),)))


def lasting(which, share):
    """The same so slow that it lasts this share of what 64 bits hold."""
    return slower(which, MUCH * share * 2.0**63 / timed(slower(which, MUCH), Implementation.COMPILED).end)


@pytest.mark.parametrize("implementation", BOTH)
@pytest.mark.parametrize("host", ["cpu-server", "dgx-h100"])
def test_almost_292_years_are_simulated(host, implementation):
    timing = timed(lasting(built(host), 0.99), implementation)
    assert timing.end / 2**63 == pytest.approx(0.99, rel=1e-3)
    assert all((ends >= 0).all() for each in timing.classes for ends in each.ends)


@pytest.mark.parametrize("share", [1.01, 2.0, 5.0, 30.0, 1e6, 1e12])
@pytest.mark.parametrize("implementation", BOTH)
@pytest.mark.parametrize("host", ["cpu-server", "dgx-h100"])
def test_more_is_refused(host, implementation, share):
    with pytest.raises(PlanError, match=WORDS):
        timed(lasting(built(host), share), implementation)
