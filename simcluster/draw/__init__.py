"""Tables, bars, grids and SVG from plain columns: what every terminal and notebook output is made of.

``draw.area`` is imported by its own name: it alone needs NumPy, which a list on the terminal does not.
"""

from simcluster.draw.area import stacked_area, thinned
from simcluster.draw.grid import TONES, schedule_grid
from simcluster.draw.markup import Markup, html_legend, html_table, section, swatch
from simcluster.draw.schedule_slots import Slot, slots
from simcluster.draw.screen import screen_width, shown
from simcluster.draw.svg import FONT, Canvas, ticks
from simcluster.draw.svg_bars import LIMIT, Stack, stacks
from simcluster.draw.svg_timeline import Block, timeline
from simcluster.draw.text_bars import bar, flow, legend
from simcluster.draw.text_tables import Cell, Column, table
from simcluster.draw.tier_diagram import Box, Line, Row, layers
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
    Part,
    Tone,
    total,
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
    "Block",
    "Box",
    "Canvas",
    "Cell",
    "Column",
    "Line",
    "Markup",
    "Part",
    "Row",
    "Slot",
    "Stack",
    "Tone",
    "bar",
    "flow",
    "html_legend",
    "html_table",
    "layers",
    "legend",
    "schedule_grid",
    "screen_width",
    "section",
    "shown",
    "slots",
    "stacked_area",
    "stacks",
    "swatch",
    "table",
    "thinned",
    "ticks",
    "timeline",
    "total",
]
