"""collective all_to_all_v --parts: laws and files, and what wrong ones get."""

from __future__ import annotations

import csv
import io

import numpy as np
import pytest

from simcluster.cluster import load_cluster
from simcluster.collectives import Operation, UnequalParts, collective_time
from simcluster.collectives.traffic.imbalance import Imbalance

V = Operation.ALL_TO_ALL_V
TWO = ("--cluster", "dgx-h100", "--hosts", 2)
SIZES = ("--sizes", "1KiB,64MiB")


def times(out) -> list[float]:
    return [float(row["time_us"]) for row in csv.DictReader(io.StringIO(out))]


def test_a_law_and_its_seed(simcluster):
    cluster = load_cluster("dgx-h100", 2)
    placement = cluster.placement(range(16))
    for seed in (None, 0, 5):
        given = () if seed is None else ("--seed", seed)
        code, out, err = simcluster("collective", V, *TWO, *SIZES, "--parts", "zipf:1.2", *given, "--csv")
        assert (code, err) == (0, "")
        parts = Imbalance.parse("zipf:1.2", seed or 0).parts(16)
        wanted = [collective_time(V, placement, size, cluster, parts=parts) for size in (2**10, 2**26)]
        assert times(out) == pytest.approx([each.duration_ns * 1e-3 for each in wanted])


def test_uniform_is_the_table_without_parts(simcluster):
    plain = simcluster("collective", V, *TWO, *SIZES, "--csv").out
    assert simcluster("collective", V, *TWO, *SIZES, "--parts", "uniform", "--csv").out == plain
    assert simcluster("collective", V, *TWO, *SIZES, "--parts", "normal:0.5", "--csv").out != plain


def test_the_table_says_how_unequal_they_are(simcluster):
    lines = simcluster("collective", V, *TWO, *SIZES, "--parts", "normal:0.3", "--seed", 3).out.splitlines()
    assert lines[0] == "all_to_all_v of 16 ranks on 2 x dgx-h100, 8 on each"
    assert lines[1].startswith("parts: normal:0.3 (seed 3); a rank has 0.893 to 1.15 times the mean to send")


def test_a_file_of_bytes(simcluster, tmp_path):
    """Two ranks on two hosts: all that moves is 10^9 bytes from the first to the second."""
    file = tmp_path / "parts.csv"
    file.write_text("# from first, from second\n0, 1000000000\n\n7, 0\n")
    pair = (*TWO, "--ranks", "0,8", "--parts", file, "--csv")
    code, out, err = simcluster("collective", V, *pair, "--sizes", "parts")
    assert (code, err) == (0, "")
    (row,) = csv.DictReader(io.StringIO(out))
    assert float(row["message_bytes"]) == pytest.approx(500_000_003.5)
    moving = (float(row["time_us"]) - float(row["latency_us"])) * 1e-6
    assert moving == pytest.approx(1e9 / 48.5e9, rel=1e-6)
    cluster = load_cluster("dgx-h100", 2)
    parts = UnequalParts.of(np.array([[0, 10**9], [7, 0]]))
    scaled = collective_time(V, cluster.placement([0, 8]), 2**20, cluster, parts=parts)
    assert times(simcluster("collective", V, *pair, "--sizes", "1MiB").out) == [scaled.duration_ns * 1e-3]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1,2\n3\n", "parts.csv:2: 1 numbers; 2 ranks need one each"),
        ("1,2\n", "has 1 lines of numbers; 2 ranks need one each"),
        ("1,2\n3,-4\n", "parts.csv:2: '-4' is not a whole number of bytes"),
        ("1,2\n3,x\n", "parts.csv:2: 'x' is not a whole number"),
        ("1,2\n3,1e3\n", "'1e3' is not a whole number"),
        (f"1,2\n3,{10**16}\n", "is not a whole number"),
        ("0,0\n0,0\n", "no rank has anything for any"),
        (None, "there is no such file"),
    ],
)
def test_wrong_files(simcluster, tmp_path, text, message):
    file = tmp_path / "parts.csv"
    if text is not None:
        file.write_text(text)
    code, out, err = simcluster("collective", V, *TWO, "--ranks", "0,8", "--parts", file)
    assert (code, out) == (2, "") and message in " ".join(err.split()) and "--parts" in err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--parts", "zip:1"), "'zip' is not a known distribution"),
        (("--parts", "zipf"), "zipf needs a number, such as zipf:1"),
        (("--seed", 1), "--seed: a seed draws parts; there are none"),
        (("--sizes", "parts"), "--sizes parts: there is no file of parts"),
        (("--sizes", "parts", "--parts", "zipf:1"), "--sizes parts: there is no file of parts"),
        (("--parts", "zipf:1", "--hosts", 1000), "8,000 ranks; with unequal parts at most 4,096"),
    ],
)
def test_wrong_words(simcluster, words, message):
    code, out, err = simcluster("collective", V, *TWO, *words)
    assert (code, out) == (2, "") and message in " ".join(err.split())


def test_other_operations_have_equal_parts(simcluster):
    code, _, err = simcluster("collective", "all_to_all", *TWO, "--parts", "zipf:1")
    assert code == 2 and "--parts: only all_to_all_v has unequal parts" in err
