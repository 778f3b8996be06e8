"""Error bands: kinds of runs, and what results say."""

from __future__ import annotations

import pytest

from simcluster.simulation.views.error_band import (
    RunKind,
    error_band_document,
    shipped_bands,
)


@pytest.mark.parametrize(
    ("device", "mixture", "said"),
    [
        ("a100-sxm-80", False, "a100, fsdp, data"),
        ("ascend-910b-313t", True, "ascend-910b, fsdp, mixture, data"),
        ("h100-sxm, changed", False, "h100, fsdp, data"),
    ],
)
def test_devices_of_a_family_are_one_kind(device, mixture, said):
    assert str(RunKind.of(device, "fsdp", ["data"], mixture=mixture)) == said


def test_a_bound_has_no_band_and_other_results_name_theirs():
    assert error_band_document(RunKind("h100", "ideal", "data"))["comparable_runs"] == 0
    for kind, band in shipped_bands().bands.items():
        found = error_band_document(kind)
        assert found["nine_of_ten_within"] == band.nine_of_ten
        assert found["comparable_runs"] == band.runs
        assert f"{band.runs} comparable measured runs" in found["words"]
