"""calibrate: device files and implementations from rows, and what it says to wrong words."""

from __future__ import annotations

import pytest

from simcluster.cluster import DeviceSpec
from simcluster.document import Document, validate_data

ROWS = "tests/accuracy/kernels.csv"


def test_a_device_file_from_rows_is_a_device(simcluster, tmp_path):
    out_file = tmp_path / "ours.yaml"
    code, out, err = simcluster("calibrate", "fit", ROWS, "--device", "arc-pro-b60", "--out", out_file)
    assert (code, err) == (0, f"written: {out_file}\n")
    assert "matmuls in bf16 and fp16" in out and "shapes left out" in out
    assert validate_data(Document.read(out_file).data, DeviceSpec).build().gemm.sustained > 0.3
    scenario = tmp_path / "small.yaml"
    scenario.write_text(
        "simcluster: 1\nname: small\ncluster: {host: {use: arc-pro-b60-8, device: ./ours.yaml}, hosts: 1}\n"
        "model: {use: gpt2}\n"
        "training: {global_batch: 8, micro_batch: 1, seq_len: 512, precision: bf16}\n"
        "parallel: {mesh: {data: 8}}\n",
        encoding="utf-8",
    )
    code, out, err = simcluster("run", scenario)
    assert (code, err) == (0, "") and "Step time" in out


def test_an_implementation_from_rows(simcluster):
    code, out, _ = simcluster("calibrate", "fit", ROWS, "--implementation", "megatron")
    assert code == 0
    assert next(line.split()[:2] for line in out.splitlines() if " x " in line) == [
        "cross_entropy",
        "backward",
    ]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("fit", ROWS), "what is to be fitted?"),
        (("fit", ROWS, "--device", "a40", "--implementation", "liger"), "what is to be fitted?"),
        (("fit", ROWS, "--implementation", "megatorn"), "no row is of implementation 'megatorn'"),
        (("fit", ROWS, "--device", "gb10"), "no row is of device 'gb10'"),
        (("measure", "--device", "tpu", "--out", "x.yaml"), "'tpu' is none of cuda, npu and cpu"),
    ],
)
def test_wrong_words(simcluster, words, message):
    code, _, err = simcluster("calibrate", *words)
    assert code == 2 and message in err
