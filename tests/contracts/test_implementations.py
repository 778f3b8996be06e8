"""Every implementation of memory-bound operators: sourced figures, and names that measured rows use."""

from __future__ import annotations

import pytest

from simcluster.accuracy.kernels.memory_operator import known_operators
from simcluster.cluster import implementation_files, load_implementation, memory_traffic
from simcluster.errors import PlanError
from tests.support.catalog_figures import figures


@pytest.mark.parametrize("name", implementation_files())
def test_figures_are_sourced_and_sane(name):
    spec = load_implementation(name)
    found = dict(figures(spec))
    assert found
    for path, figure in found.items():
        assert figure.source.strip() and figure.provenance in ("measured", "vendor", "assumed"), path
    for operator in spec.operators.values():
        for passes in (operator.forward, operator.backward):
            if passes is not None:
                assert 0.2 <= passes.traffic.value <= 30
                assert passes.floor is None or 0 < passes.floor.value < 1e-3


def test_operators_of_rows_are_computed_by_known_implementations():
    """An entry whose implementation has no file, or no such operator, would leave its rows unpredicted."""
    for entry in known_operators():
        assert entry.implementation in implementation_files(), entry.op
        assert entry.operator in load_implementation(entry.implementation).operators, entry.op


def test_names_that_are_not_known_are_refused():
    with pytest.raises(PlanError, match="unknown implementation 'megatorn'") as caught:
        memory_traffic("megatorn", "rms_norm", "forward")
    assert caught.value.problems[0].hint == "did you mean 'megatron'?"
    with pytest.raises(PlanError, match=r"nothing is known of dropout \(forward\) as 'megatron'"):
        memory_traffic("megatron", "dropout", "forward")
