"""Number formats in words, and the peak that utilisation is a share of."""

from __future__ import annotations

import pytest

from simcluster import units
from simcluster.report.content.run_header import header_rows
from simcluster.report.terminal.summary_screen import summary_text
from simcluster.simulation import simulate
from tests.support.h100_scenarios import h100


@pytest.mark.parametrize(
    ("precision", "optimizer", "told"),
    [
        ("fp32", "adamw", "fp32, fp32 gradients, fp32 adamw states"),
        ("tf32", "sgd", "fp32 with tf32 matmuls, fp32 gradients, sgd without states"),
        ("bf16", "lamb", "bf16, fp32 gradients, fp32 master weights, fp32 lamb states"),
        (
            "fp8",
            {"states": "int8"},
            "bf16 with fp8 matmuls, fp32 gradients, fp32 master weights, int8 adamw states",
        ),
        (
            {"compute": "bf16", "gradients": "bf16", "master": "none"},
            {"clip": 1.0, "states": {"moment1": "bf16", "moment2": "fp8"}},
            "bf16, bf16 gradients clipped to norm 1, adamw with bf16 moment1 and fp8 moment2",
        ),
    ],
)
def test_the_formats_in_words(precision, optimizer, told):
    training = {"precision": precision, "optimizer": optimizer}
    found = simulate(h100({"data": 8}, layers=2, micro_batches=1, training=training))
    assert dict(header_rows(found.documents))["numbers"] == told


@pytest.mark.parametrize(
    ("precision", "peak"), [("fp32", 67e12), ("tf32", 494.7e12), ("bf16", 989.4e12), ("fp8", 1979e12)]
)
def test_utilisation_is_a_share_of_the_peak_in_the_format_of_matmuls(precision, peak):
    found = simulate(h100({"data": 8}, layers=2, micro_batches=1, training={"precision": precision}))
    figures = found.documents["summary"]
    assert figures["mfu"] == pytest.approx(figures["model_flops_per_s_per_device"] / peak)
    text = summary_text(found, width=120)
    assert f"of {units.compute(peak)} at its {precision} peak" in text


def test_model_flops_do_not_depend_on_formats():
    rates = {
        precision: simulate(h100({"data": 8}, layers=2, micro_batches=1, training={"precision": precision}))
        for precision in ("bf16", "fp8")
    }
    flops = [
        each.documents["summary"]["model_flops_per_s_per_device"] * each.documents["summary"]["step_time_s"]
        for each in rates.values()
    ]
    assert flops[0] == pytest.approx(flops[1])
