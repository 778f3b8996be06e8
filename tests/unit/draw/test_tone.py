"""Tones stay apart where there is no colour, and where there is nothing but ASCII."""

from __future__ import annotations

from simcluster.draw import tone
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
