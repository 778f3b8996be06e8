"""Tables, bars, grids and SVG from plain columns: what every terminal and notebook output is made of.

``draw.area`` is imported by its own name: it alone needs NumPy, which a list on the terminal does not.
"""

from simcluster.draw.bar import bar, flow, legend
from simcluster.draw.grid import TONES, schedule_grid
from simcluster.draw.layers import Box, Line, Row, layers
from simcluster.draw.markup import Markup, html_legend, html_table, section, swatch
from simcluster.draw.screen import screen_width, shown
from simcluster.draw.slots import Slot, slots
from simcluster.draw.stacks import Stack, stacks
from simcluster.draw.table import Cell, Column, table
from simcluster.draw.timeline import Block, timeline
from simcluster.draw.tone import Part, Tone, total

__all__ = [
    "TONES",
    "Block",
    "Box",
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
    "stacks",
    "swatch",
    "table",
    "timeline",
    "total",
]
