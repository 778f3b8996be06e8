"""Tones stay apart where there is no colour, and where there is nothing but ASCII."""

from __future__ import annotations

from simcluster.draw import BLUE, chunk_of, tone
from simcluster.draw.tone import EMPTY, Tone, with_ascii_glyphs


def test_glyphs_differ_with_and_without_unicode():
    glyphs = [each.glyph for each in vars(tone).values() if isinstance(each, Tone)]
    assert len(set(glyphs)) == len(glyphs) > 9
    plain = [with_ascii_glyphs(glyph) for glyph in glyphs]
    assert len(set(plain)) == len(plain)
    assert all(glyph.isascii() and len(glyph) == 1 for glyph in plain)
    assert EMPTY.glyph in glyphs


def test_text_keeps_its_width():
    text = "█▓▒░·┃─│… plain"
    assert len(with_ascii_glyphs(text)) == len(text)
    assert with_ascii_glyphs(text).isascii()


def test_chunks_are_told_apart():
    shades = [BLUE.shaded(number).colour for number in range(8)]
    assert len(set(shades)) == 8 and shades[0] == BLUE.colour
    assert BLUE.shaded(8) == BLUE and BLUE.shaded(1).glyph == BLUE.glyph


def test_labels_name_their_chunk():
    assert [chunk_of(label) for label in ("F0", "F12c3", "B3c1s2", "F3c2&B1", "begin")] == [0, 3, 1, 2, 0]
