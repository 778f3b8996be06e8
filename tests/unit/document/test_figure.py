import copy
import pickle

import pytest

from simcluster.document import Bytes, Document, Duration, Figure, Fraction, Section, validate, validate_data
from simcluster.errors import ScenarioError


class Latency(Section):
    base: Duration
    hop: Duration


class Device(Section):
    memory: Figure[Bytes]
    efficiency: Figure[Fraction] | None = None
    curve: Figure[tuple[float, ...]] | None = None
    latency: Figure[Latency] | None = None


def test_a_figure_of_a_catalog():
    device = validate(
        Document.parse("memory: {value: 80 GB, source: H100 datasheet, provenance: vendor}"),
        Device,
        sourced=True,
    )
    assert device.memory.value == 80e9
    assert device.memory.source == "H100 datasheet"
    assert device.memory.provenance == "vendor"


def test_a_plain_value_of_a_scenario():
    device = validate_data({"memory": "80 GB", "efficiency": 0.5, "curve": [1, 2.5]}, Device)
    assert device.memory == Figure[Bytes](value="80 GB", source="", provenance="scenario")
    assert device.efficiency.value == 0.5
    assert device.curve.value == (1.0, 2.5)


def test_a_plain_mapping_is_a_value_too():
    device = validate_data({"memory": "1 B", "latency": {"base": "1 us", "hop": "2 us"}}, Device)
    assert device.latency.value == Latency(base="1 us", hop="2 us")
    assert device.latency.provenance == "scenario"


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("memory: 80", ["1:9: 80 has no unit; write for example '64 GiB'"]),
        ("memory: 80 GBB", ["1:9: unknown unit 'GBB'; write for example '64 GiB'"]),
        (
            "other: 1",
            ["1:1: 'memory' is missing; write a number with a unit such as '64 GiB'", "1:1: unknown key"],
        ),
        (
            "memory: {value: 80 GB}",
            [
                "1:1: 'source' is missing; write text",
                "1:1: 'provenance' is missing; write 'measured', 'vendor', 'assumed' or 'scenario'",
            ],
        ),
        (
            "memory: {value: 80 GB, source: x, provenance: vendro}",
            ["1:47: 'vendro' is not accepted; did you mean 'vendor'? Accepted: 'measured', 'vendor'"],
        ),
        (
            "memory: {value: 80 GB, source: ' ', provenance: assumed}",
            ["1:32: the source is empty; name the data sheet, the measurement or the reasoning"],
        ),
        (
            "memory: {value: 80 GB, sorce: x, provenance: vendor}",
            ["'source' is missing", "did you mean 'source'?"],
        ),
        ("memory: 1 B\nefficiency: 1.5", ["2:13: 1.5 is too large; write a number above 0 and at most 1"]),
        ("memory: 1 B\nefficiency: {value: 1.5, source: x, provenance: vendor}", ["2:21: 1.5 is too large"]),
        ("memory: 1 B\ncurve: [1, x]", ["2:12: 'x' is text; write a number"]),
        ("memory: 1 B\nlatency: {base: 1 us, hop: 2}", ["2:28: 2 has no unit; write for example '1.5 us'"]),
        (
            "memory: 1 B\nlatency: {base: 1 us, hpo: 2 us}",
            ["'hop' is missing", "unknown key 'hpo'; did you mean 'hop'?"],
        ),
    ],
)
def test_mistakes(text, lines):
    with pytest.raises(ScenarioError) as caught:
        validate(Document.parse(text, "f.yaml"), Device)
    assert len(caught.value.problems) == len(lines)
    for problem, line in zip(caught.value.problems, lines, strict=True):
        assert line in str(problem)


@pytest.mark.parametrize("memory", ["80 GB", {"value": "80 GB", "source": "x", "provenance": "scenario"}])
def test_a_catalog_wants_a_source(memory):
    with pytest.raises(ScenarioError, match=r"names no source; write \{value|is measured, vendor or assumed"):
        validate_data({"memory": memory}, Device, sourced=True)


def test_round_trip():
    data = {
        "memory": "80 GB",
        "efficiency": {"value": 0.5, "source": "a paper", "provenance": "measured"},
        "curve": [1.0],
        "latency": {"base": "1 us", "hop": "2 us"},
    }
    device = validate_data(data, Device)
    assert device.model_dump(mode="json") == data
    assert validate_data(device.model_dump(mode="json"), Device) == device
    assert pickle.loads(pickle.dumps(device)) == device
    assert copy.deepcopy(device) == device
