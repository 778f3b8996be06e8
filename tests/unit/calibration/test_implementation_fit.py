"""Traffic and floors of implementations, from rows made by hand."""

from __future__ import annotations

import pytest

from simcluster.accuracy import MeasuredKernel
from simcluster.calibration import fit_implementations, implementation_yaml, passes_text, streamed_rows
from simcluster.cluster import load_device
from simcluster.cluster.spec.implementation_spec import ImplementationSpec
from simcluster.document import Document, validate
from simcluster.work import DType, Kernel, Work


def row(elements: int, seconds: float) -> MeasuredKernel:
    words = {
        "id": "ours-1",
        "device": "NVIDIA H200",
        "kernel": "rotary",
        "op": "rope [liger]",
        "dtype": "bf16",
    }
    return MeasuredKernel(2, words | {"direction": "fwd", "notes": ""}, {"elements": elements}, seconds)


def timed(traffic: float, floor: float) -> list[MeasuredKernel]:
    device = load_device("h200-sxm")
    rows = []
    for power in range(16, 31, 2):
        work = Work(Kernel.ELEMENTWISE, DType.BF16, 0, 4 << power, 0)
        single = device.kernel_time(work) - device.launch
        rows.append(row(1 << power, max(floor, device.launch + traffic * single)))
    return rows


@pytest.mark.parametrize(("traffic", "floor"), [(1.0, 0.0), (7.5, 0.0), (2.0, 2e-4)])
def test_traffic_and_floor_are_found(traffic, floor):
    (found,) = fit_implementations(streamed_rows(timed(traffic, floor)))
    assert (found.implementation, found.operator, found.direction) == ("liger", "rotary", "forward")
    assert found.traffic == pytest.approx(traffic, rel=1e-6)
    assert found.floor == pytest.approx(floor)
    assert found.error < 1e-6


def test_the_file_is_an_implementation():
    fits = fit_implementations(streamed_rows(timed(2.0, 2e-4)))
    spec = validate(
        Document.parse(implementation_yaml(fits, "ours"), "ours.yaml"), ImplementationSpec, sourced=True
    )
    passes = spec.passes("rotary", "forward")
    assert (passes.traffic.value, passes.floor.value) == pytest.approx((2.0, 2e-4))
    assert "rotary" in passes_text(fits)


def test_rows_above_the_bandwidth_of_their_memory_show_nothing():
    flagged = row(1 << 20, 1e-6)
    flagged.words["notes"] = "FLAG above HBM peak"
    assert not streamed_rows([flagged])
