"""A value that is constant over stretches of time, as SVG."""

from __future__ import annotations

from collections.abc import Sequence

from simcluster import units
from simcluster.draw.svg import CHARACTER, Canvas, coordinate, ticks, time_label, time_ticks
from simcluster.draw.tone import BLUE

HEIGHT, TOP, BOTTOM, FONT_SIZE = 110, 6, 22, 10


def step_curve_svg(stretches: Sequence[tuple[float, float, float]], *, width: float = 960) -> str:
    """The SVG of (start, end, value) stretches, all in seconds; gaps between them stay empty."""
    end = max((stretch[1] for stretch in stretches), default=0.0) or 1.0
    most = max((value for _, _, value in stretches), default=0.0) or 1.0
    margin = 12 + FONT_SIZE * CHARACTER * len(time_label(most))
    canvas = Canvas(width, HEIGHT, f"step time over {units.seconds(end)}")
    across, up = (width - margin - 8) / end, (HEIGHT - TOP - BOTTOM) / most
    ground = HEIGHT - BOTTOM
    for tick in time_ticks(end, 8):
        x = margin + tick * across
        canvas.line(x, TOP, x, ground + 3)
        canvas.text(x, HEIGHT - 7, time_label(tick), anchor="middle", size=FONT_SIZE, faint=True)
    for tick in ticks(most, 3):
        canvas.line(margin, ground - tick * up, width - 8, ground - tick * up)
        label = time_label(tick) if tick else "0"
        canvas.text(margin - 6, ground - tick * up + 3.5, label, anchor="end", size=FONT_SIZE, faint=True)
    pieces = [
        f"M{coordinate(margin + start * across)} {coordinate(ground)}v{coordinate(-value * up)}"
        f"h{coordinate(max((stop - start) * across, 0.3))}v{coordinate(value * up)}z"
        for start, stop, value in stretches
    ]
    canvas.path("".join(pieces), BLUE.colour)
    return canvas.render()
