from __future__ import annotations

import string

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simcluster.document.pattern import matches


@pytest.mark.parametrize(
    ("pattern", "name"),
    [
        ("layers.0.mlp.up", "layers.0.mlp.up"),
        ("layers.*.mlp.up", "layers.125.mlp.up"),
        ("*", "anything.at.all"),
        ("*.bias", "layers.0.attention.out.bias"),
        ("layers.?.mlp.up", "layers.7.mlp.up"),
        ("layers.*.mlp.{up,down}", "layers.0.mlp.down"),
        ("layers.*.mlp.{up*, activation}", "layers.0.mlp.up.bias"),
        ("layers.*.mlp.{up*, activation}", "layers.0.mlp.activation"),
        ("{layers.?,head}.norm", "head.norm"),
        ("layers.{0,1}.{attention,mlp}.norm", "layers.1.mlp.norm"),
        ("a{}b", "ab"),
    ],
)
def test_it_fits_the_whole_name(pattern, name):
    assert matches(pattern, name)


@pytest.mark.parametrize(
    ("pattern", "name"),
    [
        ("layers.0.mlp.up", "layers.0.mlp.up.bias"),
        ("mlp.up", "layers.0.mlp.up"),
        ("layers.?.mlp.up", "layers.12.mlp.up"),
        ("layers.*.mlp.{up,down}", "layers.0.mlp.updown"),
        ("layers.0.mlp.up", "layers.0.mlp,up"),
        ("layers.0.mlp.up", "layersx0.mlp.up"),
        ("", "head"),
        ("Head.norm", "head.norm"),
    ],
)
def test_it_fits_nothing_else(pattern, name):
    assert not matches(pattern, name)


@given(st.text(string.printable))
def test_a_name_without_wildcards_fits_itself_alone(name):
    plain = "".join(letter for letter in name if letter not in "*?{}")
    assert matches(plain, plain)
    assert not matches(plain, plain + "x")


@given(st.lists(st.text(string.ascii_lowercase + ".", max_size=5), min_size=2, max_size=4), st.data())
@settings(max_examples=40)
def test_a_star_is_any_run_of_characters(parts, data):
    fill = [data.draw(st.text(string.ascii_lowercase + ".[0]+(|", max_size=4)) for _ in parts[1:]]
    name = parts[0] + "".join(gap + part for gap, part in zip(fill, parts[1:], strict=True))
    assert matches("*".join(parts), name)


@given(st.text("ab.{}*?,", max_size=8), st.text("ab.,{}", max_size=8))
def test_no_pattern_breaks_it(pattern, name):
    assert matches(pattern, name) in (True, False)
