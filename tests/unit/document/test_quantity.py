import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simcluster.document import (
    Bandwidth,
    Bytes,
    Compute,
    Duration,
    Quantity,
    Section,
    json_schema,
    validate_data,
)
from simcluster.errors import ScenarioError
from simcluster.units import Dimension


class Device(Section):
    memory: Bytes = 0.0
    link: Bandwidth = 1.0
    launch: Duration = 0.0
    peak: Compute = 1.0


@pytest.mark.parametrize(
    ("key", "text", "value"),
    [
        ("memory", "64 GiB", 64 * 2**30),
        ("memory", "80GB", 80e9),
        ("memory", "0 B", 0),
        ("link", "400 Gbps", 5e10),
        ("link", "50 GB/s", 5e10),
        ("launch", "1.5 us", 1.5e-6),
        ("launch", "2 min", 120),
        ("peak", "989.4 TFLOP/s", 989.4e12),
    ],
)
def test_text_with_a_unit_becomes_base_units(key, text, value):
    assert getattr(validate_data({key: text}, Device), key) == pytest.approx(value, rel=1e-15)


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("memory", 80, "80 has no unit; write for example '64 GiB'"),
        ("memory", 1.5, "1.5 has no unit"),
        ("memory", "80", "'80' has no unit; write for example '64 GiB'"),
        ("memory", "80 GBB", "unknown unit 'GBB'; write for example '64 GiB'"),
        ("memory", "80 GB/s", "unknown unit 'GB/s'"),
        ("memory", True, "write a number with a unit, such as '64 GiB'"),
        ("memory", None, "write a number with a unit"),
        ("memory", ["80 GB"], "write a number with a unit"),
        ("memory", "-1 GB", "must be a finite quantity of at least 0 B"),
        ("link", "0 GB/s", "must be above 0 B/s"),
        ("peak", "0 FLOP/s", "must be above 0 FLOP/s"),
        ("launch", 5, "5 has no unit; write for example '1.5 us'"),
    ],
)
def test_everything_else_shows_the_accepted_form(key, value, words):
    with pytest.raises(ScenarioError) as caught:
        validate_data({key: value}, Device)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("dimension", "value", "text"),
    [
        (Dimension.BYTES, 80e9, "80 GB"),
        (Dimension.BYTES, 64 * 2.0**30, "64 GiB"),
        (Dimension.BYTES, 0.0, "0 B"),
        (Dimension.BYTES, 1.0, "1 B"),
        (Dimension.BANDWIDTH, 5e10, "50 GB/s"),
        (Dimension.TIME, 1.5e-6, "1.5 us"),
        (Dimension.TIME, 90.0, "90 s"),
        (Dimension.TIME, 86400.0, "1 d"),
        (Dimension.FREQUENCY, 1.41e9, "1410 MHz"),
        (Dimension.COMPUTE, 989.4e12, "989.4 TFLOP/s"),
    ],
)
def test_written_as_the_shortest_text(dimension, value, text):
    assert Quantity(dimension).write(value) == text


@given(st.sampled_from(list(Dimension)), st.floats(0, 1e20))
def test_what_is_written_reads_to_the_same_float(dimension, value):
    quantity = Quantity(dimension)
    assert quantity.read(quantity.write(value)) == value


def test_round_trip_through_json():
    device = validate_data({"memory": "64 GiB", "link": "400 Gbps", "launch": "0.3 us"}, Device)
    written = device.model_dump(mode="json")
    assert written["memory"] == "64 GiB"
    assert device.model_dump()["link"] == 5e10
    assert validate_data(written, Device) == device


@pytest.mark.parametrize(
    ("key", "dimension"),
    [
        ("memory", Dimension.BYTES),
        ("link", Dimension.BANDWIDTH),
        ("launch", Dimension.TIME),
        ("peak", Dimension.COMPUTE),
    ],
)
def test_the_pattern_for_editors_accepts_what_is_read(key, dimension):
    schema = json_schema(Device)["properties"][key]
    assert schema["type"] == "string"
    pattern = re.compile(schema["pattern"], re.ASCII)
    for unit in dimension.units:
        for text in (f"1 {unit}", f"1_000.5e-3{unit}", f" .5 {unit} "):
            assert pattern.search(text), text
    for text in ("1", "1 xB", "x GB", "-1 B", "1 GBB", "", f"1 {dimension.base} 2"):
        assert not pattern.search(text), text
    for example in schema["examples"]:
        assert pattern.search(example)
