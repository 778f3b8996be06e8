"""accuracy: published rows beside their prediction, and what it says to wrong words."""

from __future__ import annotations

import csv
import io

import pytest

HEAD = "id,source,op,hardware,num_devices,num_hosts,message_bytes,time_us,algbw_gb_s,busbw_gb_s,notes\n"
ROWS = (
    "a,lab,all_reduce,H100 SXM,8,1,1073741824,4200,,,\n"
    "b,lab,all_gather,H100 SXM,8,1,1024,10,,,\n"
    "c,lab,all_reduce,A100 SXM,4,1,1024,14,,,\n"
    "d,lab,all_reduce,Some TPU,4,1,1024,14,,,\n"
    "e,lab,nvme_read,A100 SXM,1,1,,,10,,\n"
)


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text(HEAD + ROWS, encoding="utf-8")
    return path


def test_the_tables(simcluster, file):
    code, out, err = simcluster("accuracy", file, "--worst", 1)
    assert (code, err) == (0, "")
    assert out.splitlines()[0] == "3 of 5 rows predicted, 2 not"
    assert "The row farthest off" in out
    assert "no host of the catalog matches the hardware 'Some TPU'" in out
    assert "Hardware that is known: " in out and "MI300X*" in " ".join(out.split())
    assert "'nvme_read' is not an operation" in out


def test_csv_and_filters(simcluster, file):
    code, out, _ = simcluster("accuracy", file, "--csv", "--op", "all_reduce", "--hardware", "*sxm")
    found = list(csv.DictReader(io.StringIO(out)))
    assert code == 0
    assert [(row["id"], row["cluster"]) for row in found] == [("a", "dgx-h100"), ("c", "dgx-a100")]
    _, out, _ = simcluster("accuracy", file, "--csv", "--cluster", "dgx-b200")
    assert [row["cluster"] for row in csv.DictReader(io.StringIO(out))] == ["dgx-b200"] * 4 + [""]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--op", "allreduce"), "no row is of operation 'allreduce'"),
        (("--hardware", "*B200*"), "no hardware matches '*B200*'"),
        (("--cluster", "dgx-h1000"), "there is no host 'dgx-h1000'"),
    ],
)
def test_wrong_words(simcluster, file, options, words):
    code, out, err = simcluster("accuracy", file, *options)
    assert (code, out) == (2, "")
    assert words in err


def test_a_row_that_cannot_be_read_is_refused_and_the_others_are_predicted(simcluster, file):
    file.write_text(HEAD + ROWS.replace("4200", "4,2"), encoding="utf-8")
    code, out, err = simcluster("accuracy", file, "--csv")
    assert (code, out.count("\n")) == (2, ROWS.count("\n"))
    assert "rows.csv:2: 12 cells, but 11 titles" in err
    code, out, err = simcluster("accuracy", file, "--id", "unreadable")
    assert (code, out) == (2, "")
    assert "no id matches 'unreadable'" in err and "rows.csv:2: 12 cells, but 11 titles" in err
    code, out, err = simcluster("accuracy", file, "--id", "a")
    assert (code, out) == (2, "")
    assert "the row 'a' cannot be read" in err and "rows.csv:2: 12 cells, but 11 titles" in err


def test_collectives_by_hosts(simcluster, file):
    code, out, _ = simcluster("accuracy", file, "--by", "hosts")
    assert code == 0 and "host of" in out and "NVSwitch" not in out
    code, _, err = simcluster("accuracy", file, "--by", "model")
    assert code == 2 and "errors cannot be put together by 'model'" in err


KERNELS = "tests/accuracy/kernels.csv"


def test_kernels_by_device_with_the_worst(simcluster):
    code, out, err = simcluster("accuracy", KERNELS, "--id", "simumax-a100-*", "--by", "device", "--worst", 1)
    assert (code, err) == (0, "")
    assert "132 of 132 kernels predicted from their device's file" in out
    assert "NVIDIA A100-PCIe-80GB" in out and "The kernel farthest off" in out


def test_kernels_as_lines_on_a_named_device(simcluster):
    code, out, _ = simcluster(
        "accuracy", KERNELS, "--op", "gemm", "--every", 100, "--device", "h100-sxm", "--csv"
    )
    lines = list(csv.DictReader(io.StringIO(out)))
    assert code == 0 and len(lines) > 10
    assert {line["catalog_device"] for line in lines} == {"h100-sxm"}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--by", "framework"), "errors cannot be put together by 'framework'"),
        (("--scenario", "x"), "the file holds kernels, not training runs"),
        (("--device", "h10-sxm"), "there is no device 'h10-sxm'"),
        (("--op", "gem"), "no row is of operation 'gem'"),
    ],
)
def test_wrong_words_about_kernels(simcluster, options, words):
    code, _, err = simcluster("accuracy", KERNELS, *options)
    assert code == 2 and words in err


@pytest.mark.parametrize("text", ["", "a,b,c\n1,2,3\n", "name: no table\n"])
def test_a_file_of_no_kind_names_the_kinds(simcluster, tmp_path, text):
    (tmp_path / "rows.csv").write_text(text)
    code, _, err = simcluster("accuracy", tmp_path / "rows.csv")
    assert code == 2
    assert "neither measured collectives, nor kernels, nor training runs" in err
    assert "training runs have metric" in " ".join(err.split())
