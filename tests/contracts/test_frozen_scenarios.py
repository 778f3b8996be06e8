"""The scenarios of the benchmarks, with the catalog entries that are frozen in them, are still accepted."""

from __future__ import annotations

import pytest

from simcluster.scenario import Scenario
from tests.benchmarks.bench_engine import ROWS


@pytest.mark.parametrize("name", ROWS)
def test_it_is_accepted(name):
    scenario = Scenario.of(ROWS[name].scenario())
    assert scenario.cluster.num_devices > 0
    assert scenario.spec.cluster.host.use is None, "nothing is taken from the catalog"
    assert scenario.spec.model.use is None
