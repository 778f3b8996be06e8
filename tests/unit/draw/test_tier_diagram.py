"""Lines of a graph in tiers, in the colour of their use."""

from __future__ import annotations

from simcluster.draw import use_colour


def test_no_use_looks_like_none():
    """Lines without use are grey: red, green and blue alike."""
    assert use_colour(0) == ""
    for percent in range(1, 101):
        colour = use_colour(percent / 100)
        parts = [int(colour[at : at + 2], 16) for at in (1, 3, 5)]
        assert max(parts) - min(parts) >= 50, (percent, colour)
