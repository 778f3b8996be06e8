"""A pipeline schedule by itself: a grid on the terminal or a page, what stages wait, and what they hold."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from functools import cached_property
from html import escape

from rich.text import Text

from simcluster.deferred_dataclass import dataclass
from simcluster.document import names_file, text_of, validate_data
from simcluster.draw import (
    GREY,
    PURPLE,
    TONES,
    Column,
    Markup,
    ScheduleSlot,
    TimelineBlock,
    Tone,
    chunk_of,
    html_legend,
    html_page,
    html_table,
    quantities,
    render_text,
    schedule_grid,
    schedule_layout,
    screen_width,
    section,
    text_table,
    timeline_svg,
)
from simcluster.errors import PlanError, Problem, ScenarioError
from simcluster.plan import (
    ScheduleSpec,
    Timetable,
    VirtualStages,
    activation_peaks,
    parse,
    render,
    schedule_kinds,
)

_TIMES = re.compile(r"([FIW])=([1-9]\d{0,3})")
_KINDS = (("F", "forward"), ("B", "backward"), ("W", "weight gradients"))
_PAIR = ("forward and backward overlapped", PURPLE)
_FEW = (4, 8)
"""Stages and micro-batches where nobody says how many."""

MOST_DRAWN = 2**17
"""Forwards, and as many backwards, of a schedule that is drawn: a quarter of a minute, and 0.4 GB."""


@dataclass(frozen=True)
class DrawnSchedule:
    """A schedule for so many stages and micro-batches, with the units of time that actions take."""

    name: str
    timetable: Timetable
    chain: VirtualStages
    lengths: Mapping[str, int]
    num_micro_batches: int
    num_slices: int = 1

    @classmethod
    def of(
        cls,
        name: str,
        stages: int | None,
        micro_batches: int | None,
        chunks: int | None,
        placement: str | None,
        times: str,
        slices: int | None = None,
    ) -> DrawnSchedule:
        """A schedule by its kind, or one that a file writes out; ScenarioError for what cannot be."""
        lengths = _lengths(times)
        given = {"chunks": chunks, "slices": slices, "placement": placement}
        written: dict[str, object] = {key: value for key, value in given.items() if value is not None}
        num_stages, count = _FEW
        is_file = name not in schedule_kinds() and names_file(name)
        try:
            if is_file:
                text = text_of(name)
                written |= {"kind": "text", "text": text}
                num_stages, count = _counted(text)
            else:
                written["kind"] = name
            num_stages, count = stages or num_stages, micro_batches or count
            _check_size({"stages": num_stages, "micro-batches": count, "chunks": chunks, "slices": slices})
            schedule = validate_data(written, ScheduleSpec, name).build()
            timetable = schedule.timetable(num_stages, count)
            return cls(name, timetable, schedule.chain(num_stages), lengths, count, schedule.num_slices)
        except PlanError as error:
            place = name if is_file else ""
            problems = (
                Problem(problem.message, hint=problem.hint, where=place) for problem in error.problems
            )
            raise ScenarioError(*problems) from None

    @property
    def title(self) -> str:
        """What it is, in a line."""
        chunks = f" of {self.chain.num_chunks} chunks" if self.chain.num_chunks > 1 else ""
        slices = f" of {self.num_slices} slices" if self.num_slices > 1 else ""
        count = self.num_micro_batches
        return f"{self.name}: {self.chain.num_stages} stages{chunks}, {count} micro-batches{slices}"

    @property
    def text(self) -> str:
        """A line for each stage."""
        return render(self.timetable)

    @cached_property
    def rows(self) -> list[list[ScheduleSlot]]:
        """What each stage does when."""
        return schedule_layout(self.text, self.lengths, self.chain.places)

    @property
    def end(self) -> int:
        """The unit of time in which everything is over."""
        return max(row[-1].end for row in self.rows)

    @property
    def work(self) -> list[int]:
        """Units of time that each stage works."""
        return [sum(slot.length for slot in row) for row in self.rows]

    def figures(self) -> list[list[str]]:
        """A row per stage: its work, what it waits, and the most activations that it holds."""
        parts = self.chain.num_chunks * self.num_slices
        rows = []
        for stage, (work, most) in enumerate(zip(self.work, activation_peaks(self.timetable), strict=True)):
            whole = [f"{most / parts:g}"] if parts > 1 else []
            rows.append([f"stage {stage}", f"{work:,}", f"{self.end - work:,}", f"{most:,}", *whole])
        return rows

    def columns(self) -> list[Column]:
        """The titles of the figures."""
        titles = ["work", "wait", "activations"]
        parts = " and ".join(
            name
            for name, count in (("chunks", self.chain.num_chunks), ("slices", self.num_slices))
            if count > 1
        )
        if parts:
            titles = ["work", "wait", f"activations of {parts}", "of stages"]
        return [Column(), *quantities(*titles)]

    def bubble(self) -> str:
        """What all stages wait together over what they work, in words."""
        work = sum(self.work)
        wait = self.end * len(self.rows) - work
        return f"{self.end:,} units of time; bubble {wait:,} / {work:,} = {wait / work:.4g} of the work"


def schedule_text(drawn: DrawnSchedule, *, colour: bool = False) -> str:
    """The grid, the figures and the bubble."""
    grid = schedule_grid(drawn.text, screen_width(), lengths=drawn.lengths, places=drawn.chain.places)
    figures = text_table(drawn.columns(), drawn.figures())
    return render_text(Text(drawn.title, "bold"), "", grid, "", figures, "", drawn.bubble(), colour=colour)


def schedule_page(drawn: DrawnSchedule) -> str:
    """A whole HTML page: the picture, the figures and the text."""
    rows = [
        (
            f"stage {stage}",
            [
                TimelineBlock(slot.start, slot.end, slot.label, _look(slot)[1].shaded(chunk_of(slot.label)))
                for slot in row
            ],
        )
        for stage, row in enumerate(drawn.rows)
    ]
    chunks = "; chunks of a stage in lighter and darker shades" if drawn.chain.num_chunks > 1 else ""
    looks = dict(_look(slot) for row in drawn.rows for slot in row)
    picture = Markup(timeline_svg(rows, end=drawn.end, time_text=lambda time: f"{time:g}"))
    sections = (
        section("Timeline", f"units of time{chunks}", html_legend(looks.items()), picture),
        section("Stages", drawn.bubble(), html_table(drawn.columns(), drawn.figures())),
        section(
            "Text",
            "as parallel.schedule.text",
            Markup(f'<pre style="overflow-x:auto">{escape(drawn.text)}</pre>'),
        ),
    )
    style = "max-width:1020px;margin:24px auto;font:13px system-ui,sans-serif;line-height:1.45"
    head = f'<h1 style="font-size:17px">{escape(drawn.title)}</h1>'
    return html_page(drawn.title, style, head + "".join(sections))


def _look(slot: ScheduleSlot) -> tuple[str, Tone]:
    """What an action is called in the legend, and its tone."""
    if len(slot.kind) > 1:
        return _PAIR
    tone = TONES.get(slot.kind, GREY)
    return next((name for kind, name in _KINDS if TONES[kind] == tone), slot.kind), tone


def _check_size(counts: Mapping[str, int | None]) -> None:
    """ScenarioError if a schedule has more forwards than are drawn."""
    factors = {name: count for name, count in counts.items() if count}
    total = math.prod(factors.values())
    if total > MOST_DRAWN:
        product = " x ".join(f"{count:,} {name}" for name, count in factors.items())
        largest = max(factors, key=lambda name: factors[name])
        message = f"{product} = {total:,} forwards; at most {MOST_DRAWN:,} are drawn"
        raise ScenarioError(Problem(message, hint=f"use fewer {largest}"))


def _lengths(times: str) -> dict[str, int]:
    """Units of time of F, I, W and B, from ``F=1,I=1,W=1``."""
    lengths: dict[str, int] = {"F": 1, "I": 1, "W": 1}
    for word in times.split(","):
        match = _TIMES.fullmatch(word.strip())
        if match is None:
            message = f"'{word}' is not a time of an action"
            raise ScenarioError(Problem(message, where=f"--times {times}", hint="write F=1,I=1,W=1"))
        lengths[match[1]] = int(match[2])
    return lengths | {"B": lengths["I"] + lengths["W"], "R": lengths["F"]}


def _counted(text: str) -> tuple[int, int]:
    """Stages and micro-batches of a text; PlanError if it cannot be read."""
    timetable = parse(text)
    numbers = [half.micro_batch for row in timetable for action in row for half in action.parts]
    return len(timetable), 1 + max(numbers, default=0)
