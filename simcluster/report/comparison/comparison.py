"""Results side by side: how plans differ, in time, memory and settings."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from string import ascii_uppercase
from typing import Any

from simcluster import units
from simcluster.deferred_dataclass import dataclass
from simcluster.draw import BarPart, Column
from simcluster.errors import TraceError
from simcluster.report.comparison.causes import StepCause, step_causes
from simcluster.report.content import (
    fullest_entry,
    header_rows,
    is_inference,
    job_parts,
    memory,
    rate_unit,
    step_parts,
    verdict_text,
)
from simcluster.trace import Run, RunDocument

MOST = len(ascii_uppercase)

NEGLIGIBLE = 0.005
"""Changes of less than this share of the first one's step or memory are not told in words."""


@dataclass(frozen=True)
class Side:
    """One of the results: the letter it is called by, its name, and its documents."""

    letter: str
    name: str
    documents: RunDocument

    @property
    def summary(self) -> RunDocument:
        """The summary document of its run."""
        summary: RunDocument = self.documents["summary"]
        return summary

    @cached_property
    def fullest(self) -> RunDocument:
        """What its fullest device holds at its peak."""
        return fullest_entry(self.summary)

    @property
    def exposed(self) -> float:
        """Seconds of a step in which communication was not hidden."""
        return float(sum(self.summary["exposed_communication_s"].values()))

    @property
    def sent(self) -> float:
        """Bytes that a rank sends in a step."""
        return float(sum(sum(kinds.values()) for kinds in self.summary["communication_bytes"].values()))

    @property
    def job(self) -> RunDocument:
        """The document of its job, of which days are told; empty without one."""
        job: RunDocument = self.documents.get("job", {})
        return job if "goodput" in job else {}

    @property
    def work(self) -> tuple[int, int]:
        """Tokens of a step, and devices."""
        plan = self.documents["plan"]
        return plan["global_batch"] * plan["seq_len"], self.summary["num_ranks"]

    @property
    def spent(self) -> tuple[str, float]:
        """(``step`` or ``answer``, its seconds): what throughput is measured by."""
        if is_inference(self.documents):
            return "answer", float(self.summary["latency_s"])
        return "step", float(self.summary["step_time_s"])


@dataclass(frozen=True)
class FigureRow:
    """One figure of all sides; ``reading`` formats a value."""

    name: str
    values: tuple[float, ...]
    reading: Callable[[float], str]
    parts: tuple[BarPart, ...] = ()

    def change(self, index: int) -> str:
        """How much more a side has than the first: ``+1.2 s``, of shares ``+1.2 pp``, or ``same``."""
        reading = _points if self.reading is units.percent else self.reading
        return signed(self.values[index] - self.values[0], reading)


@dataclass(frozen=True)
class Trade:
    """What a side changes against the first one: in the time of a step, and in the fullest device's memory.

    ``time`` and ``memory`` are (what, seconds or bytes more); the largest changes come first.
    """

    side: Side
    speed: float
    time: tuple[tuple[str, float], ...]
    memory: tuple[tuple[str, float], ...]

    @property
    def sentences(self) -> list[str]:
        """What is less, then what is more: ``less: activations -41.2 GiB``."""
        sentences = []
        for word, sign in (("less", -1), ("more", 1)):
            listed = [
                f"{name} {signed(change, units.seconds)}" for name, change in self.time if change * sign > 0
            ]
            listed += [
                f"{name} {signed(change, units.size)}" for name, change in self.memory if change * sign > 0
            ]
            if listed:
                sentences.append(f"{word}: {', '.join(listed)}")
        return sentences


@dataclass(frozen=True)
class Comparison:
    """Results of two or more plans, the first of which the others are measured by."""

    sides: tuple[Side, ...]

    @classmethod
    def of(cls, runs: Sequence[tuple[str, Run]]) -> Comparison:
        """The comparison of (name, run) pairs; TraceError unless there are 2 to 26."""
        if not 2 <= len(runs) <= MOST:
            raise TraceError(f"{len(runs)} results cannot be compared: give 2 to {MOST}")
        sides = zip(ascii_uppercase, runs, strict=False)
        return cls(tuple(Side(letter, name, run.documents) for letter, (name, run) in sides))

    def columns(self, title: str = "") -> list[Column]:
        """The columns of a table of figures: the value of every side and, but for the first, the change."""
        first, *others = (side.letter for side in self.sides)
        pairs = [letter for other in others for letter in (other, f"{other} - {first}")]
        return [Column(title), *(Column(letter, quantity=True) for letter in (first, *pairs))]

    @property
    def differences(self) -> list[tuple[str, tuple[str, ...]]]:
        """(label, what each side has that not all have) for every line of the headline that differs."""
        lines = [dict(header_rows(side.documents)) for side in self.sides]
        differing = []
        for label in dict.fromkeys(label for line in lines for label in line):
            pieces = [line[label].split("; ") if label in line else [] for line in lines]
            shared = set(pieces[0]).intersection(*pieces[1:])
            own = tuple("; ".join(piece for piece in clauses if piece not in shared) for clauses in pieces)
            if any(own):
                differing.append((label, own))
        return differing

    @property
    def figures(self) -> list[FigureRow]:
        """The headline figures: step time, throughput, MFU, communication, memory."""
        rate = f"{rate_unit(self.sides[0].documents['plan'])}/s"
        answers = all(is_inference(side.documents) for side in self.sides)
        wanted: list[tuple[str, Callable[[Side], float], Callable[[float], str]]] = [
            *((name, _figure(figure), units.seconds) for name, figure in _TIMES[answers]),
            (f"{rate} per device", _figure("tokens_per_s_per_device"), units.count),
            *((name, _figure(figure), units.percent) for name, figure in _SHARES[answers]),
            ("pipeline wait of the step", lambda side: side.summary["bubble_fraction"], units.percent),
            ("exposed communication", lambda side: side.exposed, units.seconds),
            ("sent per rank", lambda side: side.sent, units.volume),
            ("peak memory, fullest device", lambda side: side.fullest["total"], units.size),
        ]
        if any(
            side.summary["reserved_memory_bytes_max"] != side.summary["allocated_memory_bytes_max"]
            for side in self.sides
        ):
            wanted.append(
                ("reserved by allocators", lambda side: side.summary["reserved_memory_bytes_max"], units.size)
            )
        if self.has_jobs:
            wanted += [
                ("goodput of the job", lambda side: side.job["goodput"], units.percent),
                ("wall time of the job", lambda side: side.job["wall_s"], units.seconds),
                ("interruptions of the job", lambda side: side.job["interruptions"], units.count),
            ]
        return [FigureRow(name, tuple(map(value, self.sides)), reading) for name, value, reading in wanted]

    @property
    def has_jobs(self) -> bool:
        """Whether all sides have a job."""
        return all(side.job for side in self.sides)

    @property
    def job(self) -> list[FigureRow]:
        """Where the time of the jobs goes, if all sides have one."""
        return _rows([job_parts(side.job) for side in self.sides], units.seconds) if self.has_jobs else []

    @property
    def step(self) -> list[FigureRow]:
        """The parts of a step, mean over ranks."""
        order = list(
            dict.fromkeys(
                axis
                for side in self.sides
                for axis, _ in sorted(
                    side.summary["exposed_communication_s"].items(), key=lambda axis_seconds: -axis_seconds[1]
                )
            )
        )
        return _rows(
            [[part for part, _ in step_parts(side.summary, order)] for side in self.sides], units.seconds
        )

    @property
    def memory(self) -> list[FigureRow]:
        """What the fullest device holds at its peak, by category."""
        return _rows([memory(side.fullest["breakdown"]) for side in self.sides], units.size)

    @property
    def trades(self) -> list[Trade]:
        """What each side but the first changes against the first."""
        first = self.sides[0]
        return [
            Trade(
                side,
                side.summary["tokens_per_s_per_device"] / first.summary["tokens_per_s_per_device"],
                tuple(_changes(self.step, index, NEGLIGIBLE * first.summary["step_time_s"])),
                tuple(_changes(self.memory, index, NEGLIGIBLE * first.fullest["total"])),
            )
            for index, side in enumerate(self.sides)
            if index
        ]

    @cached_property
    def causes(self) -> list[tuple[StepCause, ...]]:
        """For each side but the first, what makes its step longer or shorter than the first one's."""
        first, *others = self.sides
        return [tuple(step_causes(first.documents, side.documents)) for side in others]

    @property
    def caveats(self) -> list[str]:
        """Why steps of the sides are not comparable, where they are not."""
        works = [side.work for side in self.sides]
        caveats = []
        if len({is_inference(side.documents) for side in self.sides}) > 1:
            caveats.append("some train, others answer prompts: a step of one is nothing of the other")
        for what, place in (("tokens a step", 0), ("devices", 1)):
            if len({work[place] for work in works}) > 1:
                amounts = ", ".join(
                    f"{side.letter} {work[place]:,}" for side, work in zip(self.sides, works, strict=True)
                )
                caveats.append(f"not the same {what}: {amounts}; compare tokens/s per device")
        return caveats

    def document(self) -> dict[str, Any]:
        """All of it as JSON-able data, in SI units."""
        return {
            "results": [{"letter": side.letter, "name": side.name} for side in self.sides],
            "differences": {label: list(own) for label, own in self.differences},
            "figures": {row.name: list(row.values) for row in self.figures},
            "step_s": {row.name: list(row.values) for row in self.step},
            "memory_bytes": {row.name: list(row.values) for row in self.memory},
            **({"job_s": {row.name: list(row.values) for row in self.job}} if self.has_jobs else {}),
            "causes": {
                side.letter: [
                    {"kind": cause.kind, "name": cause.name, "before_s": cause.before, "after_s": cause.after}
                    for cause in causes
                ]
                for side, causes in zip(self.sides[1:], self.causes, strict=True)
            },
            "fits": [bool(side.summary["fits"]) for side in self.sides],
            "verdict": [verdict_text(side.summary) for side in self.sides],
            "caveats": self.caveats,
        }


_TIMES: Mapping[bool, Sequence[tuple[str, str]]] = {
    False: [("step time", "step_time_s")],
    True: [
        ("time to the first token", "ttft_s"),
        ("time per further token", "tpot_s"),
        ("time to the last token", "latency_s"),
    ],
}
_SHARES: Mapping[bool, Sequence[tuple[str, str]]] = {
    False: [("MFU", "mfu"), ("HFU", "hfu")],
    True: [("MFU of the prefill", "prefill_mfu"), ("MBU of decode steps", "decode_mbu")],
}
"""What people quote of trainings, and where all sides are answers."""


def _figure(name: str) -> Callable[[Side], float]:
    return lambda side: float(side.summary[name])


def _points(value: float) -> str:
    """A difference of shares in percentage points."""
    return f"{100 * value:.1f} pp"


def signed(value: float, reading: Callable[[float], str]) -> str:
    """A change with its sign, or ``same``."""
    text = reading(abs(value))
    if not any(digit in text for digit in "123456789"):
        return "same"
    return f"{'+' if value > 0 else '-'}{text}"


def _rows(sides: Sequence[Sequence[BarPart]], reading: Callable[[float], str]) -> list[FigureRow]:
    """Parts of all sides by name; one that a side lacks is nothing there."""
    known: dict[str, BarPart] = {}
    for parts in sides:
        for part in parts:
            known.setdefault(part.name, part)
    by_name = [{part.name: part.value for part in parts} for parts in sides]
    rows = []
    for name, part in known.items():
        values = tuple(values_of.get(name, 0.0) for values_of in by_name)
        if any(values):
            rows.append(
                FigureRow(name, values, reading, tuple(BarPart(name, value, part.tone) for value in values))
            )
    return rows


def _changes(rows: Sequence[FigureRow], index: int, least: float) -> Iterator[tuple[str, float]]:
    changes = [(row.name, row.values[index] - row.values[0]) for row in rows]
    yield from sorted(
        (change for change in changes if abs(change[1]) >= least), key=lambda change: -abs(change[1])
    )
