"""collective: an nccl-tests-like table, and what it says to wrong words."""

from __future__ import annotations

import csv
import io

import pytest

from simcluster.cli.commands.collective.benchmark_plot import link_limit
from simcluster.cluster import host_names, load_cluster
from simcluster.collectives import Operation, all_algorithms, benchmark, collective_time
from simcluster.listings import CollectiveBenchmark

TWO = ("--cluster", "dgx-h100", "--hosts", 2)
SIZES = [2**power for power in range(10, 31)]


def rows(out):
    return list(csv.DictReader(io.StringIO(out)))


def test_the_table(simcluster):
    code, out, err = simcluster(
        "collective", "all_reduce", *TWO, "--sizes", "512MiB..2GiB", "--algorithm", "ring"
    )
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0] == "all_reduce of 16 ranks on 2 x dgx-h100, 8 on each"
    titles = "bytes size algorithm protocol ch. time us latency us algbw GB/s busbw GB/s"
    assert " ".join(lines[2].split()) == titles
    sizes = [line.split()[0] for line in lines[3:6]]
    assert sizes == ["536,870,912", "1,073,741,824", "2,147,483,648"]
    cluster = load_cluster("dgx-h100", 2)
    choice = collective_time(Operation.ALL_REDUCE, cluster.placement(range(16)), 2**30, cluster, "ring")
    seconds = choice.duration_ns * 1e-9
    algbw = 2**30 / seconds * 1e-9
    figures = [seconds * 1e6, choice.latency * 1e6, algbw, algbw * 30 / 16]
    assert lines[4].split()[1:5] == ["1.00", "GiB", "ring", choice.protocol]
    assert lines[4].split()[6:] == [f"{figure:,.2f}" for figure in figures]
    assert "dgx-h100.network.efficiency" in out


def test_csv_has_the_columns_of_the_published_rows(simcluster):
    code, out, err = simcluster("collective", "all_gather", *TWO, "--csv", "--sizes", "1KiB,3MiB")
    assert (code, err) == (0, "")
    first, second = rows(out)
    assert (first["message_bytes"], second["message_bytes"]) == ("1024", "3145728")
    assert (first["operation"], first["cluster"]) == ("all_gather", "dgx-h100")
    assert (first["num_devices"], first["num_hosts"]) == ("16", "2")
    for row in (first, second):
        algbw = int(row["message_bytes"]) / float(row["time_us"]) * 1e-3
        assert float(row["algbw_gb_s"]) == pytest.approx(algbw, rel=1e-9)
        assert float(row["busbw_gb_s"]) == pytest.approx(algbw * 15 / 16, rel=1e-9)
        assert float(row["latency_us"]) < float(row["time_us"])


@pytest.mark.thorough
@pytest.mark.parametrize("host", host_names())
def test_every_operation_on_every_host(host):
    """As the command does it, which is called for one host below; again on another object of the cluster."""
    clusters = [load_cluster(host, 3) for _ in range(2)]
    for operation in Operation:
        ranks = range(2 if operation is Operation.SEND_RECEIVE else clusters[0].num_devices)
        first, second = (
            benchmark(operation, cluster.placement(ranks), SIZES, cluster) for cluster in clusters
        )
        assert [row.num_bytes for row in first] == SIZES
        # HCCL goes by rules: a larger message may be faster where another algorithm begins.
        for algorithm in {row.choice.algorithm for row in first}:
            times = [row.seconds for row in first if row.choice.algorithm == algorithm]
            assert times == sorted(times)
        assert [row.algbw for row in second] == [row.algbw for row in first]
        assert [row.choice.algorithm for row in second] == [row.choice.algorithm for row in first]


@pytest.mark.parametrize("operation", Operation)
def test_every_operation_is_a_word_of_the_command(simcluster, operation):
    group = ("--ranks", "0,1") if operation is Operation.SEND_RECEIVE else ()
    arguments = ("--cluster", "dgx-h100", "--hosts", 3, "--sizes", "1KiB..1GiB", "--csv")
    code, out, err = simcluster("collective", operation, *arguments, *group)
    assert (code, err) == (0, "")
    assert [int(row["message_bytes"]) for row in rows(out)] == SIZES
    assert simcluster("collective", operation, *arguments, *group).out == out


@pytest.mark.parametrize(
    "kind",
    sorted(all_algorithms()["ring"].operations & all_algorithms()["tree"].operations - {Operation.BARRIER}),
)
def test_auto_is_the_fastest(simcluster, kind):
    times = {
        name: [
            float(row["time_us"]) for row in rows(simcluster("collective", kind, *TWO, "--csv", *named).out)
        ]
        for name, named in {
            "auto": (),
            "ring": ("--algorithm", "ring"),
            "tree": ("--algorithm", "tree"),
            "nvls_tree": ("--algorithm", "nvls_tree"),
        }.items()
    }
    named = (times["ring"], times["tree"], times["nvls_tree"])
    assert times["auto"] == [min(each) for each in zip(*named, strict=True)]
    assert times["ring"] != times["auto"] != times["tree"]


def test_a_group_is_chosen_by_ranks(simcluster):
    near = simcluster("collective", "send_receive", *TWO, "--ranks", "0,1").out
    far = simcluster("collective", "send_receive", *TWO, "--ranks", "0,8").out
    assert near.startswith("send_receive of 2 ranks on one dgx-h100\n")
    assert far.startswith("send_receive of 2 ranks on 2 x dgx-h100, 1 on each\n")
    uneven = simcluster("collective", "all_reduce", *TWO, "--ranks", "0, 2-4,9").out
    assert uneven.startswith("all_reduce of 5 ranks on 2 x dgx-h100, 1 to 4 on each\n")


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"operation": "allreduce"}, "there is no collective 'allreduce'\n    did you mean 'all_reduce'?"),
        ({"--algorithm": "rng"}, "--algorithm rng: unknown algorithm 'rng'\n    for all_reduce: auto, "),
        ({"--algorithm": "pairwise"}, "--algorithm pairwise: algorithm 'pairwise' cannot do all_reduce"),
        ({"--cluster": "dgx-h10"}, "--cluster: unknown host 'dgx-h10'\n    did you mean 'dgx-h100'?"),
        ({"--hosts": 0}, "greater than or equal to 1"),
        ({"--hosts": 10**20}, "--hosts: "),
        ({"--hosts": 10**6}, "--hosts: 8,000,000 ranks; at most 1,048,576"),
        ({"--sizes": "1024"}, "--sizes 1024: '1024' has no unit"),
        ({"--sizes": "2KiB..1KiB"}, "the first size is larger than the last"),
        ({"--sizes": "1KiB.."}, "--sizes 1KiB..: write a number with a unit"),
        ({"--sizes": "0B..1KiB"}, "'0B' is not a whole number of bytes"),
        ({"--sizes": "1b,1KiB"}, "'1b' is not a whole number of bytes"),
        ({"--sizes": "1KiB..9PiB"}, "'9PiB' is larger than 1.00 PiB"),
        ({"--ranks": "0"}, "a collective needs at least two ranks"),
        ({"--ranks": "0,16"}, "there is no rank 16; the cluster has 16, from 0 on"),
        ({"--ranks": "0-3,2"}, "--ranks 0-3,2: rank 2 is named twice"),
        ({"--ranks": "3-0"}, "'3-0' counts down; write 0-3"),
        ({"--ranks": "0-"}, "'0-' is not a rank; write for example 0,8,16-23"),
        ({"--ranks": "a,b"}, "'a' is not a rank"),
        (
            {"operation": "send_receive"},
            "send_receive has two ends, not 16\n    choose them, such as --ranks 0,1",
        ),
    ],
)
def test_wrong_words(simcluster, changed, message):
    words = {"operation": "all_reduce", "--cluster": "dgx-h100", "--hosts": 2} | changed
    operation = words.pop("operation")
    code, out, err = simcluster("collective", operation, *(each for pair in words.items() for each in pair))
    assert (code, out) == (2, "")
    assert message in err


def test_all_wrong_words_are_shown_together(simcluster):
    arguments = ("--cluster", "dgx", "--sizes", "1", "--algorithm", "rng")
    code, _, err = simcluster("collective", "all_reduce", *arguments)
    assert code == 2
    assert all(f"--{name}" in err for name in ("cluster", "sizes", "algorithm"))


def test_a_protocol_is_named(simcluster):
    found = rows(simcluster("collective", "all_reduce", *TWO, "--csv", "--protocol", "ll128").out)
    assert {row["protocol"] for row in found} == {"ll128"}
    code, _, err = simcluster("collective", "all_reduce", *TWO, "--protocol", "ll12")
    assert code == 2 and "no protocol 'll12'" in err and "ll128" in err


def test_a_page_shows_plot_and_table(simcluster, tmp_path):
    page = tmp_path / "found.html"
    assert simcluster("collective", "all_reduce", *TWO, "--html", page).code == 0
    text = page.read_text()
    assert (
        text.startswith("<!doctype html>")
        and "<script" not in text
        and "http" not in text.replace("http://www.w3.org/2000/svg", "")
    )
    assert text.count("<rect") == 2 * (text.count("<tr") - 1) > 10
    code, _, err = simcluster("collective", "all_reduce", *TWO, "--html", tmp_path)
    assert code == 2 and "this is a folder" in err


def test_letters_alone_count_by_1024(simcluster):
    group = ("collective", "all_reduce", "--cluster", "dgx-h100", "--csv", "--sizes")
    assert simcluster(*group, "1M..4m").out == simcluster(*group, "1MiB..4MiB").out
    assert simcluster(*group, "512K,1G").out == simcluster(*group, "512KiB,1GiB").out
    code, _, err = simcluster(*group, "1..X")
    assert code == 2 and "--sizes 1..X" in err


def test_the_limit_of_the_links_is_what_large_sizes_come_near():
    bench = CollectiveBenchmark.of("all_reduce", "dgx-h100", 2, "1K..64G", "ring", None, "simple")
    cards, rate = 8, 48.5e9
    assert [link_limit(row) for row in bench.rows] == pytest.approx([cards * rate] * len(bench.rows))
    assert all(row.busbw < cards * rate for row in bench.rows)
    assert bench.rows[-1].busbw > 0.95 * cards * rate and bench.rows[0].busbw < 0.01 * cards * rate
