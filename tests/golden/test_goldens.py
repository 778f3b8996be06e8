"""Every shipped scenario against its recorded figures.

``--update-baselines`` rewrites them, and the commit says why. Times are integer nanoseconds inside, so the
figures are the same on every machine; the tolerance is for the last bit of the prices behind them.
``passes`` are digests of the graph behind every pass: a plan changes in the first pass whose digest does.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.figures import differences, figures

FOLDER = Path(__file__).parent
SHIPPED = sorted(Path("scenarios").glob("*.yaml"))


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_golden(path, request):
    golden = FOLDER / f"{path.stem}.json"
    found = figures(path)
    if request.config.getoption("--update-baselines"):
        golden.write_text(json.dumps(found, indent=2) + "\n")
        return
    assert golden.exists(), f"no golden for {path}: run pytest tests/golden --update-baselines"
    drift = list(differences(json.loads(golden.read_text()), found))
    assert not drift, "\n".join(drift)


def test_every_golden_has_its_scenario():
    assert {each.stem for each in FOLDER.glob("*.json")} == {each.stem for each in SHIPPED}
