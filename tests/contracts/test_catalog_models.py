"""Every model of the catalog simulates on the fewest DGX H100 that it fits; the run prints the times."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from simcluster import units
from simcluster.model.spec.model_spec import ModelSpec
from simcluster.scenario import Scenario
from simcluster.search import find_first_fit
from simcluster.simulation import simulate
from simcluster.tuning import SearchRequest

CLUSTER, DEVICES = "dgx-h100", 8
MOST_HOSTS = 64


def smallest(name):
    """The first plan that fits on the fewest hosts, with as small a batch as keeps a pipeline filled."""
    hosts = 1
    while hosts <= MOST_HOSTS:
        batch = DEVICES if hosts == 1 else 2 * hosts
        found = find_first_fit(SearchRequest(name, CLUSTER, hosts, global_batch=batch)).chosen
        if found is not None:
            return found
        hosts *= 2
    raise AssertionError(f"{name} fits nowhere")


LONG = {
    "kimi-k2",
    "megatron-1t",
    "megatron-145b",
    "megatron-162b",
    "megatron-175b",
    "megatron-310b",
    "megatron-530b",
    "mixtral-8x22b",
    "nemotron4-340b",
    "qwen3-235b-a22b",
}
"""Large models of series of which smaller ones are tried, whose plans fit only on many hosts."""


SMALLER = {
    "deepseek": "deepseek-v2-lite",
    "llama3": "llama3-8b",
    "mixtral": "mixtral-8x7b",
    "resnet": "resnet-18",
    "t5": "t5-small",
}
NEARLY = {
    "bloom-176b",
    "glm-5",
    "llama-13b",
    "llama2-13b",
    "nemotron4-15b",
    "pangu-alpha-13b",
    "turing-nlg-17b",
}
"""Large models of families of which smaller ones are tried."""
FIRST = {name.partition("-")[0]: name for name in reversed(ModelSpec.entries())} | SMALLER
"""One model of each series: the first by name, or one that fits on fewer hosts."""


SHIPPED = {path.read_text() for path in Path("scenarios").glob("*.yaml")}


def marks(name):
    """The quick run has one model of each series, of families that several have the small ones. Models of
    shipped scenarios are simulated by their goldens, too.
    """
    if name in FIRST.values() and name not in NEARLY | LONG:
        return ()
    used = any(re.search(rf"\buse: {re.escape(name)}\b(?![.-])", text) for text in SHIPPED)
    return pytest.mark.exhaustive if used or name in LONG else pytest.mark.thorough


@pytest.mark.parametrize("name", [pytest.param(name, marks=marks(name)) for name in ModelSpec.entries()])
def test_it_simulates_on_its_smallest_cluster(name, record_property):
    found = smallest(name)
    summary = simulate(Scenario.of(found.data)).documents["summary"]
    assert summary["fits"]
    assert 0 < summary["mfu"] < 1
    hosts = found.data["cluster"]["hosts"]
    step = units.seconds(summary["step_time_s"])
    memory = units.size(summary["peak_memory_bytes_max"])
    shown = (
        f"{name:18} {hosts:3} x {CLUSTER}  {step:>8}  MFU {summary['mfu']:4.0%}  {memory:>9}  {found.plan}"
    )
    record_property("step time", shown)
