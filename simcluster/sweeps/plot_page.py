"""A sweep as a page: its plots and its table, nothing from outside, no scripts."""

from __future__ import annotations

from html import escape

from simcluster.draw import FONT, Markup, html_legend, html_page, html_table, section
from simcluster.sweeps.plot_axes import PlotAxes
from simcluster.sweeps.plots import lines_svg, memory_svg
from simcluster.sweeps.ranked_points import RankedPoints
from simcluster.sweeps.table import conclusions, shown_figures, sweep_cells, sweep_columns

WIDTH, HEIGHT = 960.0, 360.0
_MOST_PANELS = 12
_MOST_ROWS = 1000


def sweep_page(ranked: RankedPoints) -> str:
    """The page, whole."""
    style = f"max-width:{WIDTH:.0f}px;margin:24px auto;font-size:13px;line-height:1.45;{FONT}"
    return html_page(f"Sweep of {ranked.name}", style, _body(ranked))


def sweep_html(ranked: RankedPoints) -> str:
    """The same as one ``div``, for a notebook."""
    style = f"max-width:{WIDTH:.0f}px;font-size:13px;line-height:1.45;color:inherit;background:none;{FONT}"
    return f'<div style="{style}">{_body(ranked)}</div>'


def _body(ranked: RankedPoints) -> str:
    axes = PlotAxes.of(ranked.space)
    legend = html_legend([*axes.legend(ranked.space)])
    key = (
        "filled: fits; ring: does not fit; cross: no figures, the table says why; the best has a second ring"
    )
    shown = ranked.order[:_MOST_ROWS]
    figures = shown_figures(ranked)
    table = html_table(
        sweep_columns(ranked, figures), [sweep_cells(ranked, place, figures) for place in shown]
    )
    more = f"the best {len(shown):,} of {len(ranked.points):,}" if len(shown) < len(ranked.points) else ""
    parts = [
        f'<h1 style="font-size:18px">{escape(ranked.name)}</h1>',
        *(f"<div>{escape(line)}</div>" for line in conclusions(ranked)),
        section(f"{ranked.objective.title} over {axes.x(ranked.space).key}", key, _panels(ranked, axes)),
        legend,
        section(
            "against memory", "the line is the Pareto front", Markup(memory_svg(ranked, axes, WIDTH, HEIGHT))
        ),
        legend,
        section("best first", more, table),
    ]
    return "".join(parts)


def _panels(ranked: RankedPoints, axes: PlotAxes) -> Markup:
    """One plot, or a grid of small ones."""
    choices = axes.panel_choices(ranked.space)
    if len(choices) == 1:
        return Markup(lines_svg(ranked, axes, choices[0], WIDTH, HEIGHT))
    width, height = WIDTH / 2 - 8, 240.0
    panels = "".join(
        f'<div><div style="font-weight:600">{escape(axes.panel_title(ranked.space, chosen))}</div>'
        f"{lines_svg(ranked, axes, chosen, width, height)}</div>"
        for chosen in choices[:_MOST_PANELS]
    )
    left = len(choices) - _MOST_PANELS
    more = (
        f"<div>{left} more combinations of the other keys stand in the table only</div>" if left > 0 else ""
    )
    return Markup(f'<div style="display:flex;flex-wrap:wrap;gap:8px 16px">{panels}</div>{more}')
