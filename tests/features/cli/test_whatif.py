"""whatif: what it prints, what it writes, what it refuses."""

from __future__ import annotations

import json


def test_a_table_a_page_and_json(simcluster, here, small):
    code, out, _ = simcluster("whatif", small, "--html", "page.html")
    assert code == 0
    assert "The step takes" in out
    assert "<svg" in (here / "page.html").read_text()
    code, out, _ = simcluster("whatif", small, "--json", "--by", "50")
    told = json.loads(out)
    assert code == 0
    assert told["by"] == 0.5
    swings = [entry["worse"] - entry["better"] for entry in told["factors"]]
    assert swings == sorted(swings, reverse=True)


def test_wrong_input(simcluster, small):
    assert simcluster("whatif", small, "--by", "0").code == 2
    assert simcluster("whatif", small, "--html", ".").code == 2
    assert simcluster("whatif", "no.yaml").code == 2
