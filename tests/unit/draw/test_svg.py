import xml.etree.ElementTree as ET
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simcluster import units
from simcluster.draw import BarPart, Stack, TimelineBlock, stacked_bars_svg, timeline_svg
from simcluster.draw.area import stacked_area, thin_levels
from simcluster.draw.svg import Canvas, ticks, time_ticks
from simcluster.draw.svg_timeline import FEW
from simcluster.draw.tone import BLUE, GREEN, ORANGE

SVG = "{http://www.w3.org/2000/svg}"


def parsed(text):
    assert text.count("http") == 1, "nothing but the name space may point outside"
    return ET.fromstring(text)


def rects(root, tone):
    return [each for each in root.iter(f"{SVG}rect") if each.get("fill") == tone.colour]


def test_text_is_escaped():
    canvas = Canvas(10, 10, '<"label">')
    canvas.text(0, 0, "<b> & 'x'")
    canvas.rect(0, 0, 1, 1, "#fff", title="a < b")
    canvas.path("M0 0", "#000", "<t>")
    root = parsed(canvas.render())
    assert root.get("aria-label") == '<"label">'
    assert root.find(f"{SVG}text").text == "<b> & 'x'"
    assert [each.text for each in root.iter(f"{SVG}title")] == ["a < b", "<t>"]


def test_timeline_draws_blocks_to_scale():
    rows = [
        ("stage 0", [TimelineBlock(0.0, 1.0, "F0", BLUE), TimelineBlock(3.0, 4.0, "B0", GREEN)]),
        ("stage 1", []),
    ]
    root = parsed(timeline_svg(rows))
    (first,), (second,) = rects(root, BLUE), rects(root, GREEN)
    assert float(first.get("width")) == pytest.approx(float(second.get("width")))
    length = float(first.get("width")) + 0.6
    assert float(second.get("x")) - float(first.get("x")) == pytest.approx(3 * length, abs=0.2)
    assert first.find(f"{SVG}title").text == "F0: 1.00 s, from 0 s"
    assert {"F0", "B0", "stage 0", "stage 1"} <= {each.text for each in root.iter(f"{SVG}text")}


def test_many_blocks_become_one_path_per_tone():
    blocks = [TimelineBlock(index, index + 0.5, "F", BLUE) for index in range(FEW + 1)]
    root = parsed(timeline_svg([("stage 0", blocks)]))
    (path,) = root.iter(f"{SVG}path")
    assert path.get("d").count("M") == FEW + 1
    assert not rects(root, BLUE)


def test_stacks_share_a_scale_and_mark_what_is_too_much():
    rows = [
        Stack(
            "a",
            [BarPart("x", 4.0, BLUE), BarPart("nothing", 0.0, GREEN), BarPart("y", 4.0, ORANGE)],
            "8",
            limit=6.0,
        ),
        Stack("b", [BarPart("x", 2.0, BLUE)], "2", limit=6.0),
    ]
    root = parsed(stacked_bars_svg(rows, units.size))
    long, short = (float(each.get("width")) for each in rects(root, BLUE))
    assert long == pytest.approx(2 * short, abs=0.2)
    assert not rects(root, GREEN)
    (mark,) = root.iter(f"{SVG}line")
    (orange,) = rects(root, ORANGE)
    middle = float(orange.get("x")) + float(orange.get("width")) / 2
    assert float(mark.get("x1")) == pytest.approx(middle, abs=0.2)


def test_nothing_to_draw():
    for text in (
        timeline_svg([]),
        timeline_svg([("a", [])]),
        stacked_bars_svg([], units.size),
        stacked_bars_svg([Stack("a", [])], units.size),
        stacked_area(np.zeros(1), np.zeros((1, 1)), [("x", BLUE)], units.size, end=1.0),
    ):
        parsed(text)


@given(st.data())
@settings(max_examples=40)
def test_thinning_never_loses_the_highest_moment(data):
    count = data.draw(st.integers(1, 50))
    gaps = data.draw(st.lists(st.integers(1, 5), min_size=count - 1, max_size=count - 1))
    times = np.concatenate([[0.0], np.cumsum(gaps, dtype=float)])
    heights = np.array(data.draw(st.lists(st.integers(0, 9), min_size=count, max_size=count)), dtype=float)
    end, columns = times[-1] + 1.0, data.draw(st.integers(1, 30))
    chosen = thin_levels(times, heights[None], end, columns)
    edges = np.linspace(0, end, columns + 1)
    for index, left, right in zip(chosen, edges[:-1], edges[1:], strict=True):
        held = [
            height
            for start, stop, height in zip(times, [*times[1:], np.inf], heights, strict=True)
            if start < right and stop > left
        ]
        assert heights[index] == max(held)
    assert heights[chosen].max() == heights.max()


def test_areas_stack_and_a_limit_far_off_is_left_out():
    times, levels = np.array([0.0, 1.0, 2.0]), np.array([[1.0, 1.0, 1.0], [0.0, 3.0, 1.0]])
    series = [("low", BLUE), ("high", ORANGE)]
    near = parsed(stacked_area(times, levels, series, units.size, end=3.0, limit=5.0, columns=3))
    low, high = near.iter(f"{SVG}path")
    assert low.get("fill") == BLUE.colour and high.get("fill") == ORANGE.colour
    assert "5 B" in {each.text for each in near.iter(f"{SVG}text")}
    far = parsed(stacked_area(times, levels, series, units.size, end=3.0, limit=500.0, columns=3))
    assert "500 B" not in {each.text for each in far.iter(f"{SVG}text")}


@given(st.floats(1e-9, 1e6), st.integers(2, 12))
def test_ticks_are_round_and_about_as_many_as_asked(end, count):
    found = ticks(end, count)
    assert found[0] == 0 and found[-1] <= end * (1 + 1e-6)
    assert len(found) <= count + 1
    assert all(b - a == pytest.approx(found[1]) for a, b in pairwise(found))
    assert len(found) < 2 or f"{found[1]:e}"[:8] in {"1.000000", "2.000000", "5.000000"}


@pytest.mark.parametrize(
    ("end", "step"), [(3.0, 0.5), (3600.0, 500.0), (14_400.0, 1800.0), (86_400.0, 10_800.0), (5e6, 864_000.0)]
)
def test_marks_of_hours_and_days_are_whole(end, step):
    assert time_ticks(end, 8)[1] == step


def test_a_line_over_an_area_steps_where_its_level_does():
    times, levels = np.array([0.0, 1.0]), np.array([[1.0, 2.0]])
    line = (np.array([0.0, 2.0]), np.array([2.0, 4.0]))
    without = parsed(stacked_area(times, levels, [("x", BLUE)], units.size, end=3.0, columns=3))
    drawn = parsed(stacked_area(times, levels, [("x", BLUE)], units.size, end=3.0, columns=3, line=line))

    def lines(found):
        return [each for each in found.iter() if each.tag.endswith("line") and "1.5" in str(each.attrib)]

    assert len(lines(without)) == 0
    flat, up, top = lines(drawn)
    assert flat.get("y1") == flat.get("y2") != top.get("y1") == top.get("y2")
    assert up.get("x1") == up.get("x2") == flat.get("x2") == top.get("x1")
    assert float(top.get("y1")) == 10.0  # the highest level reaches the top
