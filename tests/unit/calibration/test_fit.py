"""Fits to measurements that a known device made: they find its figures, and leave alone the others."""

from __future__ import annotations

from dataclasses import replace

import pytest

from simcluster.accuracy import MeasuredKernel
from simcluster.accuracy.kernels import kernel_task, task_seconds
from simcluster.calibration import cross_validated, device_data, device_yaml, fit_device, fit_text
from simcluster.calibration.optimiser import minimise
from simcluster.cluster import DeviceSpec, load_device
from simcluster.document import Document, validate_data
from simcluster.errors import ScenarioError


def row(number: int, notes: str = "", layout: str = "TN", **sizes: int) -> MeasuredKernel:
    words = {
        "id": f"ours-{number}",
        "device": "NVIDIA H200",
        "kernel": "gemm",
        "op": "matmul",
        "dtype": "bf16",
    }
    return MeasuredKernel(2, words | {"layout": layout, "direction": "fwd", "notes": notes}, sizes, 1.0)


def measured(device, rows):
    """The rows as ``device`` would have timed them."""
    warm, cool = device, device.in_burst()
    return [
        replace(one, seconds=task_seconds(task, cool if task.burst else warm))
        for one in rows
        for task in [kernel_task(one)]
    ]


SHAPES = [
    {"m": m, "n": n, "k": k}
    for m in (2048, 4096, 8192)
    for n, k in ((4096, 4096), (8192, 1024), (1024, 8192), (12288, 512))
]
ROWS = [row(number, **shape) for number, shape in enumerate(SHAPES)]
ROWS += [row(number, "near boost clock", **shape) for number, shape in enumerate(SHAPES, 100)]
ROWS += [row(number, layout="NT", **shape) for number, shape in enumerate(SHAPES, 200)]


@pytest.fixture(scope="module")
def fit():
    device = load_device("h200-sxm")
    gemm = replace(device.gemm, sustained=0.6, burst=1.3, layouts=(1.0, 0.9), ramp=300.0)
    return cross_validated(fit_device(measured(replace(device, gemm=gemm), ROWS), "h200-sxm"))


def test_the_figures_of_the_device_that_was_measured_are_found(fit):
    found = fit.device.gemm
    assert found.sustained == pytest.approx(0.6, rel=0.03)
    assert found.burst == pytest.approx(1.3, rel=0.03)
    assert found.layouts[1] == pytest.approx(0.9, rel=0.03)
    assert found.ramp == pytest.approx(300, rel=0.35)


def test_what_rows_do_not_show_stays(fit):
    assert [stage.stage.name for stage in fit.stages] == ["matmuls in bf16 and fp16"]
    before = load_device("h200-sxm")
    assert fit.device.attention == before.attention
    assert fit.device.gemm.grouped == before.gemm.grouped


def test_shapes_left_out_are_predicted_too_and_one_source_leaves_none_out(fit):
    (stage,) = fit.stages
    assert stage.after < 0.02 < stage.before
    assert stage.unseen_shapes < 0.03
    assert stage.unseen_sources is None


def test_the_same_rows_give_the_same_fit(fit):
    device = load_device("h200-sxm")
    gemm = replace(device.gemm, sustained=0.6, burst=1.3, layouts=(1.0, 0.9), ramp=300.0)
    assert fit_device(measured(replace(device, gemm=gemm), ROWS), "h200-sxm").device.gemm == fit.device.gemm


def test_the_file_is_a_device_with_these_figures(fit):
    data = Document.parse(device_yaml(fit), "ours.yaml").data
    assert data == device_data(fit)
    made = validate_data(data, DeviceSpec).build()
    assert made.gemm.sustained == pytest.approx(fit.device.gemm.sustained, rel=0.01)
    assert made.gemm.burst == pytest.approx(fit.device.gemm.burst, rel=0.01)
    assert "fitted to 36 rows" in data["gemm"]["sustained"]["source"]


def test_the_report_tells_what_each_figure_gains(fit):
    text = fit_text(fit)
    assert "shapes left out" in text and "gemm.sustained" in text
    gains = {move.parameter.key: move.gain for stage in fit.stages for move in stage.moves}
    assert gains["gemm.sustained"] > 0.05


def test_a_device_without_rows_is_refused():
    with pytest.raises(ScenarioError, match="no row is of device 'h100-sxm'"):
        fit_device(ROWS, "h100-sxm")


def test_the_least_value_is_found_within_bounds():
    def cost(values):
        return (values[0] - 3) ** 2 + (values[1] - 0.2) ** 2

    assert minimise(cost, (1.0, 1.0), (1.0, 1.0), ((0.1, 10), (0.1, 10))) == pytest.approx([3, 0.2], rel=0.02)
    assert minimise(cost, (1.0, 1.0), (1.0, 1.0), ((0.1, 2), (0.5, 10)))[0] == pytest.approx(2)


def test_kernels_made_of_several_show_neither_attention_nor_grouped_matmuls():
    sizes = {"batch": 2, "heads": 4, "head_dim": 64, "seq_q": 256, "seq_kv": 256}
    experts = {"batch": 2, "m": 64, "n": 128, "k": 128}
    attention = {"kernel": "other", "op": "attention fwd+bwd [PyTorch unfused]", "direction": "full"}
    loop = {"kernel": "grouped_gemm", "op": "fused_moe [huggingface]"}
    plain = row(0, **SHAPES[0])
    made = [
        replace(plain, words={**plain.words, **words, "causal": "false"}, counts=counts)
        for words, counts in ((attention, sizes), (loop, experts))
        for _ in range(6)
    ]
    assert not fit_device(measured(load_device("h200-sxm"), made), "h200-sxm").stages
