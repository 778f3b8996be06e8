"""Tables, bars, grids and SVG from plain columns: what every terminal and notebook output is made of.

``draw.area`` is imported by its own name: it alone needs NumPy, which a list on the terminal does not.
"""

from typing import TYPE_CHECKING

from simcluster.lazy_exports import exported_lazily

if TYPE_CHECKING:
    from simcluster.draw.area import stacked_area, thin_levels
    from simcluster.draw.grid import TONES, schedule_grid
    from simcluster.draw.markup import (
        Markup,
        html_bar,
        html_legend,
        html_page,
        html_table,
        preformatted,
        section,
        swatch,
    )
    from simcluster.draw.plots import Interval, areas_plot, intervals_plot, stacked_bars_plot, tiers_plot
    from simcluster.draw.report_html import renderables_html
    from simcluster.draw.schedule_slots import ScheduleSlot, chunk_of, schedule_layout
    from simcluster.draw.screen import render_text, screen_width
    from simcluster.draw.step_curve import step_curve_svg
    from simcluster.draw.svg import FONT, Canvas, ticks
    from simcluster.draw.svg_bars import LIMIT, Stack, stacked_bars_svg
    from simcluster.draw.svg_timeline import TimelineBlock, timeline_svg
    from simcluster.draw.table_column import Column, quantities
    from simcluster.draw.text_bars import text_bar, text_legend, wrap_items
    from simcluster.draw.text_tables import Cell, csv_text, text_table
    from simcluster.draw.tier_diagram import Box, BoxRow, Connection, tier_diagram_svg, use_colour
    from simcluster.draw.tone import (
        BLUE,
        GREEN,
        GREY,
        OLIVE,
        ORANGE,
        PINK,
        PURPLE,
        RED,
        TEAL,
        YELLOW,
        BarPart,
        Tone,
        sum_of_parts,
        with_ascii_glyphs,
    )
else:
    __getattr__ = exported_lazily(
        __name__,
        {
            "area": "stacked_area thin_levels",
            "grid": "TONES schedule_grid",
            "markup": "Markup html_bar html_legend html_page html_table preformatted section swatch",
            "plots": "Interval areas_plot intervals_plot stacked_bars_plot tiers_plot",
            "report_html": "renderables_html",
            "schedule_slots": "ScheduleSlot chunk_of schedule_layout",
            "screen": "render_text screen_width",
            "step_curve": "step_curve_svg",
            "svg": "FONT Canvas ticks",
            "svg_bars": "LIMIT Stack stacked_bars_svg",
            "svg_timeline": "TimelineBlock timeline_svg",
            "text_bars": "text_bar text_legend wrap_items",
            "table_column": "Column quantities",
            "text_tables": "Cell csv_text text_table",
            "tier_diagram": "Box BoxRow Connection tier_diagram_svg use_colour",
            "tone": "BLUE GREEN GREY OLIVE ORANGE PINK PURPLE RED TEAL YELLOW BarPart Tone "
            "sum_of_parts with_ascii_glyphs",
        },
    )

__all__ = [
    "BLUE",
    "FONT",
    "GREEN",
    "GREY",
    "LIMIT",
    "OLIVE",
    "ORANGE",
    "PINK",
    "PURPLE",
    "RED",
    "TEAL",
    "TONES",
    "YELLOW",
    "BarPart",
    "Box",
    "BoxRow",
    "Canvas",
    "Cell",
    "Column",
    "Connection",
    "Interval",
    "Markup",
    "ScheduleSlot",
    "Stack",
    "TimelineBlock",
    "Tone",
    "areas_plot",
    "chunk_of",
    "csv_text",
    "html_bar",
    "html_legend",
    "html_page",
    "html_table",
    "intervals_plot",
    "preformatted",
    "quantities",
    "render_text",
    "renderables_html",
    "schedule_grid",
    "schedule_layout",
    "screen_width",
    "section",
    "stacked_area",
    "stacked_bars_plot",
    "stacked_bars_svg",
    "step_curve_svg",
    "sum_of_parts",
    "swatch",
    "text_bar",
    "text_legend",
    "text_table",
    "thin_levels",
    "ticks",
    "tier_diagram_svg",
    "tiers_plot",
    "timeline_svg",
    "use_colour",
    "with_ascii_glyphs",
    "wrap_items",
]
