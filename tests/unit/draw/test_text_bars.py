import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simcluster.draw import BarPart, text_bar, text_legend, tone, wrap_items
from simcluster.draw.text_bars import MARK, cell_widths

TONES = [value for value in vars(tone).values() if isinstance(value, tone.Tone)]


def parts(*values):
    return [BarPart(f"part {index}", value, TONES[index]) for index, value in enumerate(values)]


@given(st.lists(st.floats(0, 1e15), max_size=9), st.integers(1, 120))
@settings(max_examples=40)
def test_cells_are_right_to_half_a_character_and_sum_to_the_total(values, width):
    scale = sum(values)
    found = cell_widths(values, scale, width)
    assert all(count >= 0 for count in found)
    assert sum(found) == (width if scale else 0)
    for value, count in zip(values, found, strict=True):
        assert abs(count - (value / scale * width if scale else 0)) <= 1 + 1e-9


def test_a_bar_without_limit_is_as_long_as_its_parts():
    assert text_bar(parts(2, 4, 2), 8, scale=8).plain == "██▓▓▓▓▒▒"
    assert text_bar(parts(2, 2), 8, scale=8).plain == "██▓▓"


def test_room_up_to_the_limit_is_dotted():
    assert text_bar(parts(2, 2), 8, scale=8, limit=8).plain == "██▓▓····"
    assert text_bar(parts(2, 2), 8, scale=8, limit=6).plain == "██▓▓··  "


def test_a_bar_beyond_its_limit_is_marked_at_the_limit():
    plain = text_bar(parts(4, 4), 8, scale=8, limit=6).plain
    assert plain == f"████▓▓{MARK}▓"
    assert len(plain) == 8


@pytest.mark.parametrize("excess", [1e-6, 1e-3])
def test_a_limit_passed_by_a_hair_is_marked_too(excess):
    assert MARK in text_bar(parts(8 + excess), 8, scale=8 + excess, limit=8).plain
    assert MARK not in text_bar(parts(8), 8, scale=8, limit=8).plain


def test_tones_differ_without_colour_and_by_colour():
    assert len({each.glyph for each in TONES}) == len(TONES)
    assert len({each.colour for each in TONES}) == len(TONES)
    assert all(len(each.glyph) == 1 for each in TONES)
    assert text_bar(parts(1, 1), 8, scale=2, colour=True).plain == "█" * 8


def test_flow_breaks_between_items_only():
    text = wrap_items(["layers.3.mlp 1.20 GiB", "layers.4.mlp 2.30 GiB", "x"], 30).plain
    assert text == "layers.3.mlp 1.20 GiB,\nlayers.4.mlp 2.30 GiB, x"
    assert wrap_items([], 30).plain == ""


@given(st.lists(st.text("abc ", min_size=1, max_size=12), min_size=1), st.integers(12, 60))
def test_flow_keeps_to_the_width_and_loses_nothing(items, width):
    lines = wrap_items(items, width, "; ").plain.split("\n")
    assert all(len(line.rstrip("; ")) <= width for line in lines)
    assert "".join(lines).replace(";", "").replace(" ", "") == "".join(items).replace(" ", "")


def test_legend_keeps_fill_and_name_together():
    text = text_legend(parts(1, 1, 1), 20).plain
    assert text.split("\n") == ["█ part 0  ▓ part 1", "▒ part 2"]
