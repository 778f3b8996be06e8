"""Which of the keys that vary is an axis of the plot, which a colour, and which make plots of their own."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

from simcluster.deferred_dataclass import dataclass
from simcluster.draw import BLUE, GREEN, OLIVE, ORANGE, PINK, PURPLE, RED, TEAL, YELLOW, Tone
from simcluster.sweeps.ranked_points import RankedPoints
from simcluster.sweeps.table import short_names
from simcluster.sweeps.variation import SweepSpace, Variation

TONES = (BLUE, ORANGE, GREEN, PURPLE, TEAL, RED, YELLOW, PINK, OLIVE)


@dataclass(frozen=True)
class PlotAxes:
    """Places of variations: that along the axis, that of colours (None: one colour), and the others."""

    along: int
    series: int | None
    panels: tuple[int, ...]

    @classmethod
    def of(cls, space: SweepSpace) -> PlotAxes:
        """Along the axis goes the numeric key with the most values, colours to the next with the most.

        A key with more values than there are colours gets plots; so do keys beyond two, and one with a single
        value gets nothing.
        """
        varying = [
            place for place, variation in enumerate(space.variations) if len(variation.values) > 1
        ] or [0]

        def size(place: int) -> tuple[bool, int]:
            variation = space.variations[place]
            return variation.is_numeric, len(variation.values)

        along = max(varying, key=size)
        others = [place for place in varying if place != along]
        few = [place for place in others if len(space.variations[place].values) <= len(TONES)]
        series = max(few, key=lambda place: len(space.variations[place].values), default=None)
        return cls(along, series, tuple(place for place in others if place != series))

    def x(self, space: SweepSpace) -> Variation:
        """What goes along the axis."""
        return space.variations[self.along]

    def tone(self, space: SweepSpace, point: int) -> Tone:
        """The colour of a combination."""
        return TONES[0 if self.series is None else space.choices(point)[self.series]]

    def legend(self, space: SweepSpace) -> list[tuple[str, Tone]]:
        """What colours mean; nothing where there is one only."""
        if self.series is None:
            return []
        name = short_names([variation.key for variation in space.variations])[self.series]
        labels = space.variations[self.series].labels
        return [(f"{name} {label}", tone) for label, tone in zip(labels, TONES, strict=False)]

    def panel_choices(self, space: SweepSpace) -> list[tuple[int, ...]]:
        """What the other keys are in each plot, by places of their values."""
        return list(product(*(range(len(space.variations[place].values)) for place in self.panels)))

    def panel_title(self, space: SweepSpace, choices: Sequence[int]) -> str:
        """What a plot is of."""
        names = short_names([variation.key for variation in space.variations])
        return ", ".join(
            f"{names[place]} {space.variations[place].labels[chosen]}"
            for place, chosen in zip(self.panels, choices, strict=True)
        )

    def lines(self, ranked: RankedPoints, choices: Sequence[int]) -> dict[int, list[int]]:
        """Series -> the places in ``points`` of a plot, along the axis."""
        lines: dict[int, list[int]] = {}
        for place, (point, _) in enumerate(ranked.points):
            own = ranked.space.choices(point)
            if tuple(own[panel] for panel in self.panels) == tuple(choices):
                lines.setdefault(0 if self.series is None else own[self.series], []).append(place)
        for places in lines.values():
            places.sort(key=lambda place: ranked.space.choices(ranked.points[place][0])[self.along])
        return lines
