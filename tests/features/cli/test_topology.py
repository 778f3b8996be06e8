"""topology: links, bisection bandwidth, a path, and a page."""

from __future__ import annotations

import re

import pytest

from simcluster.cluster import host_names
from tests.support.covering import quick
from tests.support.scenario_texts import SMALL, but


def test_the_table_and_a_path(simcluster):
    code, out, err = simcluster("topology", "dgx-h100", "--hosts", 64, "--path", "0,300")
    assert (code, err) == (0, "")
    assert out.splitlines()[0] == "64 x dgx-h100, 512 devices, network: rail_optimised"
    rows = {line.split()[0]: line.split() for line in out.splitlines() if line.strip()}
    assert rows["host.*.device.*"][1] == "512" and rows["unit.*.rail.*"][1] == "16"
    assert rows["host.*.device.*.nvlink.{out,in}"][1:6] == ["1,024", "371", "GB/s", "300", "ns"]
    assert rows["host.*.disks.out"][2] == "50.0" and rows["host.*.disks.in"][2] == "24.0"
    assert "bisection bandwidth: 12.4 TB/s one way" in out
    assert rows["unit.0.rail.4.up"][1:] == ["1.55", "TB/s", "200", "ns"]
    assert out.rstrip().endswith("48.5 GB/s, 3.70 us")


def test_the_cluster_of_a_scenario(simcluster, here):
    (here / "small.yaml").write_text(SMALL)
    code, out, _ = simcluster("topology", "small.yaml")
    assert code == 0
    assert re.match(r"\d+ x [a-z0-9-]+, \d+ devices?, network: \w+", out)
    _, more, _ = simcluster("topology", "small.yaml", "--hosts", 5)
    assert more.startswith("5 x ")


@pytest.mark.parametrize("host", quick(host_names(), "dgx-1v", "dgx-h100", "atlas-800t-a2", "gb200-nvl72"))
def test_a_page_of_every_host(simcluster, here, host):
    code, _, err = simcluster("topology", host, "--hosts", 20, "--path", "0,1", "--html", "page.html")
    assert code == 0, err
    assert "written: page.html" in err
    page = (here / "page.html").read_text()
    assert page.count("<svg") == page.count("</svg>") == 2
    assert "nan" not in page and "From rank 0 to rank 1" in page
    assert 'stroke="#e4572e"' in page, "the path stands out"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("dgx-h10",), "did you mean 'dgx-h100'"),
        (("dgx-h100", "--path", "0"), "write two ranks, such as 0,17"),
        (("dgx-h100", "--path", "0,8"), "there is no rank 8; the last is 7"),
        (("dgx-h100", "--path", "3,3"), "no path to itself"),
        (("dgx-h100", "--html", "nowhere/page.html"), "--html"),
        (("nowhere.yaml",), "nowhere.yaml"),
    ],
)
def test_wrong_words(simcluster, here, words, told):
    code, _, err = simcluster("topology", *words)
    assert code == 2
    assert told in err


def test_a_network_that_reduces_says_so(simcluster):
    told = {
        name: simcluster("topology", name, "--hosts", 2).out.splitlines()[0]
        for name in ("dgx-h100", "dgx-h100-sharp")
    }
    assert told["dgx-h100-sharp"].endswith("network: rail_optimised, which reduces")
    assert told["dgx-h100"].endswith("network: rail_optimised")


def test_the_links_of_a_million_hosts_are_not_drawn(simcluster, small):
    told = "1,000,000 x 8 = 8,000,000 devices; the links of at most 1,048,576 are shown"
    code, out, err = simcluster("topology", "dgx-h100", "--hosts", 1_000_000)
    assert (code, out) == (2, "")
    assert " ".join(err.split()) == f"--hosts 1000000: {told}"
    code, _, err = simcluster("topology", small, "--hosts", 10**12)
    assert code == 2 and "the links of at most 1,048,576 are shown" in err


def test_a_scenario_whose_cluster_cannot_be_is_named_with_the_place(simcluster, here):
    changes = "hosts: 4, changes: [{link: host 0.network, bandwidth: 0.5}]"
    (here / "wrong.yaml").write_text(but("hosts: 4", changes))
    code, out, err = simcluster("topology", "wrong.yaml")
    assert (code, out) == (2, "")
    assert err.startswith("wrong.yaml:4:")
    assert "no link is called 'host 0.network'" in err
