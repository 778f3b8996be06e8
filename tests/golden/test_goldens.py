"""Every shipped scenario against its recorded figures.

``--update-baselines`` rewrites them, and the commit says why. Times are integer nanoseconds inside, so the
figures are the same on every machine; the tolerance is for the last bit of the prices behind them.
``passes`` are digests of the graph behind every pass: a plan changes in the first pass whose digest does.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.covering import quick
from tests.support.figures import differences, figures

FOLDER = Path(__file__).parent
SHIPPED = sorted(Path("scenarios").glob("*.yaml"))
LONG = {
    "bloom-176b-384-a100": "gpt3-175b-1024-a100",
    "deepseek-v3-2048-h800": "deepseek-v3-4-layers-8-b200",
    "llama2-13b-8-a100-40-offload": "zero-offload-10b-1-v100",
    "llama2-13b-8-a100-40-recompute": "megatron-39b-512-a100",
    "llama3-70b-64-h100-seqpipe": "llama3-70b-64-h100-overlap",
    "megatron-1t-2048-h200-interleaved": "megatron-1t-2048-h200",
    "megatron-1t-2048-h200-zb-v": "megatron-1t-2048-h200",
    "megatron-1t-512-h200-from-2048": "megatron-1t-2048-h200",
    "mt-nlg-530b-2240-a100": "megatron-1t-2048-h200",
    "pangu-alpha-200b-2048-ascend-910": "pangu-alpha-13b-64-ascend-910",
    "pangu-alpha-200b-2048-ascend-910-searched": "pangu-alpha-13b-64-ascend-910",
    "qwen3-30b-a3b-32-h100-skewed": "mixtral-8x7b-64-h100",
    "zero-infinity-gpt3-175b-16-v100": "zero-offload-10b-1-v100",
}
"""Thorough ones, of a second or more, each with the one of the quick run that is nearest to it."""
QUICK = [path for path in SHIPPED if path.stem not in LONG]


@pytest.mark.parametrize("path", quick(SHIPPED, *QUICK), ids=lambda path: path.stem)
def test_golden(path, request):
    golden = FOLDER / f"{path.stem}.json"
    found = figures(path)
    if request.config.getoption("--update-baselines"):
        golden.write_text(json.dumps(found, indent=2) + "\n")
        return
    assert golden.exists(), f"no golden for {path}: run pytest tests/golden --update-baselines"
    drift = list(differences(json.loads(golden.read_text()), found))
    assert not drift, "\n".join(drift)


def test_what_is_shown_later_is_like_one_that_is_shown_now():
    assert LONG.keys() | {*LONG.values()} <= {path.stem for path in SHIPPED}
    assert LONG.keys().isdisjoint(LONG.values())


def test_every_golden_has_its_scenario():
    assert {each.stem for each in FOLDER.glob("*.json")} == {each.stem for each in SHIPPED}
