"""The picture: its axes are chosen from what varies, and every point is in it."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

from simcluster.sweeps import SweepSpace, Variation
from simcluster.sweeps.plot_axes import PlotAxes
from simcluster.sweeps.plot_page import sweep_page
from simcluster.sweeps.plots import lines_svg, memory_svg
from tests.support.sweep_results import impossible, ranked_points, row


def axes_of(*settings):
    space = SweepSpace.of([Variation.parse(setting) for setting in settings])
    return PlotAxes.of(space)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (["a=1,2"], (0, None, ())),
        (["a=1", "b=1,2"], (1, None, ())),
        (["a=1,2", "b=1,2,3"], (1, 0, ())),
        (["a=x,y,z", "b=1,2"], (1, 0, ())),
        (["a=1,2", "b=1,2,3", "c=1,2,3,4", "d=x,y"], (2, 1, (0, 3))),
        (["a=1,2", f"b={','.join(f'v{number}' for number in range(10))}"], (0, None, (1,))),
        (["a=x,y"], (0, None, ())),
    ],
)
def test_axes(settings, expected):
    axes = axes_of(*settings)
    assert (axes.along, axes.series, axes.panels) == expected


def marks(svg):
    """The tooltips of all dots, rings and crosses."""
    root = ElementTree.fromstring(svg)
    return [title.text for title in root.iter("{http://www.w3.org/2000/svg}title")]


ROWS = [row(3, 70), row(2, 75), impossible("why <not> & so"), row(1, 90)]
SETTINGS = ["parallel.mesh.tensor=1,2", "training.micro_batch=1,2"]


def test_every_point_is_in_the_plot():
    result = ranked_points(ROWS, SETTINGS)
    axes = PlotAxes.of(result.space)
    titles = marks(lines_svg(result, axes, (), 960, 360))
    settings = {title.split(";")[0] for title in titles}
    assert settings == {f"parallel.mesh.tensor={t}, training.micro_batch={m}" for t in (1, 2) for m in (1, 2)}
    assert any("impossible: why <not> & so" in title for title in titles)
    assert any(title.endswith("best, Pareto") for title in titles)
    assert len({title.split(";")[0] for title in marks(memory_svg(result, axes, 960, 360))}) == 3


def test_more_keys_make_more_plots():
    rows = [row(1 + number, 70) for number in range(8)]
    page = sweep_page(ranked_points(rows, [*SETTINGS, "parallel.optimizer_sharding.zero=0,1"]))
    assert page.count("<svg") == 3
    assert ">zero 0</div>" in page and ">zero 1</div>" in page
    many = sweep_page(
        ranked_points([row(1, 70)] * 56, [*SETTINGS, f"a={','.join(f'v{number}' for number in range(14))}"])
    )
    assert many.count("<svg") == 13
    assert "2 more combinations of the other keys stand in the table only" in many


@pytest.mark.parametrize("rows", [ROWS, [impossible()] * 4, [row(1, 90)] * 4])
@pytest.mark.parametrize("objective", ["step_time", "memory", "mfu"])
def test_pages_are_whole_and_need_nothing(rows, objective):
    page = sweep_page(ranked_points(rows, SETTINGS, objective))
    assert page.startswith("<!doctype html>")
    assert "<script" not in page and "http" not in re.sub('xmlns="[^"]*"', "", page)
    for svg in re.findall(r"<svg.*?</svg>", page, re.DOTALL):
        ElementTree.fromstring(svg)


def test_what_is_not_done_is_not_drawn():
    page = sweep_page(ranked_points(ROWS, SETTINGS, missing=range(4)))
    assert page.count("<svg") == 2
