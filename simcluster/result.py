"""The result of a simulation: its figures, tables, plots and reports."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal

from simcluster import units
from simcluster.errors import TraceError, nearest
from simcluster.printable import printable_text
from simcluster.report import (
    Frame,
    PlanSummary,
    Rows,
    RunPlots,
    emphasised_verdict,
    fullest_entry,
    renderers,
    result_html,
    summary_text,
    table_rows,
    write_chakra,
    write_perfetto,
    write_tables,
)
from simcluster.report import tables as columns
from simcluster.trace import WALL_TIME, Run, write_file


class Result(RunPlots):
    """The result of a simulation: its figures, tables, plots and reports.

    Every figure of the summary is an attribute: seconds, bytes, and rates per second; means over ranks, with
    ``_max`` the largest of any class. ``print`` shows the summary, a notebook the whole report. What was
    recorded, exact to the nanosecond, is in ``run``. With tenants there are two more: ``slowdown``, and
    ``tenants`` with the figures of everyone on the cluster. An inference has those of its answer: ``ttft_s``
    to the first token, ``tpot_s`` for each further one, ``latency_s`` to the last, ``prefill_mfu`` and
    ``decode_mbu`` (memory bandwidth utilisation); tokens per second are generated tokens.
    """

    step_time_s: float
    """Seconds per step."""

    tokens_per_s: float
    """Tokens trained per second, by all devices together."""

    tokens_per_s_per_device: float
    """Tokens trained per second and device."""

    samples_per_s: float
    """Samples trained per second."""

    model_flops_per_s_per_device: float
    """Arithmetic of the model done per second and device, recomputation not counted."""

    mfu: float
    """Model FLOPs utilisation: that rate over the device's peak, 0 to 1."""

    hfu: float
    """Hardware FLOPs utilisation: as ``mfu``, with all arithmetic that was done."""

    mfu_full_attention: float
    """As ``mfu``, causal attention counted as the full square, not as the half that is not masked; only of
    models with attention."""

    hfu_full_attention: float
    """As ``hfu``, causal attention counted as the full square; only of models with attention."""

    bubble_fraction: float
    """Pipeline wait over step time."""

    bubble_over_compute: float
    """Pipeline wait over compute time."""

    compute_s: float
    """Seconds of a step in kernels, as if they had the device to themselves."""

    slowed_s: float
    """Seconds that kernels took longer because communication beside them held units and memory bandwidth."""

    host_s: float
    """Seconds of a step that launches of kernels took, and in which kernels waited for the host: for it to
    dispatch them, or for operators that run there."""

    pipeline_wait_s: float
    """Seconds of a step spent waiting for other stages."""

    offload_wait_s: float
    """Seconds of a step spent waiting for offloaded tensors."""

    input_wait_s: float
    """Seconds of a step spent waiting for data."""

    idle_s: float
    """Seconds of a step with nothing left to do."""

    exposed_communication_s: Mapping[str, float]
    """Mesh axis -> seconds of a step in which communication over it was not hidden behind compute."""

    communication_bytes: Mapping[str, Mapping[str, float]]
    """Mesh axis -> collective -> bytes a rank sends per step."""

    peak_memory_bytes: list[Mapping[str, Any]]
    """Per class of ranks: the peak, its breakdown by category, the capacity, fragments, what is left, and the
    verdict."""

    peak_memory_bytes_max: int
    """The highest peak of any device, runtime and communicators included."""

    allocated_memory_bytes_max: int
    """The most that the framework's tensors take on any device: without runtime and communicators."""

    reserved_memory_bytes_max: int
    """The most that the framework's allocator has reserved for them; equal where the profile names none."""

    fits: bool
    """Whether every device has the memory it needs, and its headroom: ``verdict`` is ``fits``."""

    verdict: str
    """``fits``, ``tight`` or ``does not fit``, as ``verdict_rule`` says."""

    verdict_rule: str
    """The rule in words."""

    collectives: float
    """Collectives that a rank takes part in per step."""

    collective_calls: float
    """Calls of the host for them per step."""

    num_ranks: int
    """Ranks that take part."""
    num_classes: int
    """Classes of ranks that behave alike, of which one each is simulated."""
    num_events: int
    """Instructions that were simulated, on all streams of the simulated ranks."""
    num_flows: int
    """Phases of collectives and transfers carried over shared links."""

    num_solves: int
    """How often rates were worked out anew where flows shared a link."""

    wall_s: float | None
    """Seconds the simulation itself took; None if read from a file of ``run --out``, which does not say.
    """

    error_band: dict[str, Any]
    """How far predictions of comparable measured runs are off: how many there are, their median error, within
    which nine of ten lie, and a sentence. Only of training."""

    assumptions: list[Mapping[str, str]]
    """Figures of the result's devices, hosts and profile that are assumed: ``name``, ``value`` and, as
    ``source``, the reasoning."""

    def __init__(self, run: Run) -> None:
        self._run = run

    @property
    def run(self) -> Run:
        """Everything recorded: tables in integer nanoseconds and bytes, and all documents."""
        return self._run

    @property
    def name(self) -> str:
        """The scenario's name."""
        return str(self.plan["name"])

    @property
    def summary(self) -> dict[str, Any]:
        """All figures by name."""
        return dict(self._run.documents["summary"])

    @property
    def plan(self) -> PlanSummary:
        """What was decided: mesh, stages, schedule, precision, sharding; it draws its schedule."""
        return PlanSummary(self._run.documents["plan"])

    @property
    def job(self) -> dict[str, Any]:
        """The run over days, of a scenario with a job: goodput, time lost by cause, timeline, replications;
        else empty.
        """
        return dict(self._run.documents.get("job", {}))

    @property
    def dispatch(self) -> Mapping[str, float]:
        """Where pieces run as graphs: operators ``alone`` and ``in_graphs`` per rank and step, ``launches``
        of graphs, and ``busy_s``, the host's seconds for all of them; empty where there are none.
        """
        dispatch: Mapping[str, float] = self._run.documents["summary"].get("dispatch", {})
        return dispatch

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("_"):
            figures = self._run.documents["summary"]
            if name in figures or name == WALL_TIME:
                return figures.get(name)
            raise AttributeError(f"a result has no '{name}'; {nearest(name, dir(self))}", name=name, obj=self)
        raise AttributeError(name)

    def __dir__(self) -> list[str]:
        public = [name for name in object.__dir__(self) if not name.startswith("_")]
        return sorted({*public, *self._run.documents["summary"]})

    def spans(self, *, ranks: Iterable[int] | None = None, frame: Frame = None) -> Rows:
        """Every kernel, collective, send and receive; see ``transfers`` for when each could have started.

        Columns: class, stage, rank (the one simulated), ranks (how many it stands for), stream, kind,
        operator, graph (the piece that it is a part of; empty: none), action, micro_batch (-1: once per
        step), step, start_s, end_s, duration_s, bytes, flops.

        Those of one rank of every class, or of the ``ranks`` that are named, each by itself. Raises
        TraceError if there is no such rank, or if they are too many for one table: name some ranks then.

        A polars DataFrame where polars is installed, else a NumPy structured array; ``frame`` asks for
        ``"polars"``, ``"pandas"``, or with False for NumPy.
        """
        return table_rows(columns.spans_table(self._run, ranks), frame)

    def transfers(self, *, ranks: Iterable[int] | None = None, frame: Frame = None) -> Rows:
        """Every collective, send and receive: columns as in ``spans`` less flops, and ready_s.

        A collective starts when the last of its members is ready. ``ranks`` and ``frame`` as in ``spans``.
        """
        return table_rows(columns.transfers_table(self._run, ranks), frame)

    def memory(self, *, ranks: Iterable[int] | None = None, frame: Frame = None) -> Rows:
        """Every allocation and release.

        Columns: class, stage, rank, ranks, time_s, category, buffer, micro_batch, bytes (negative: released),
        held_bytes (of all categories, after the change). ``ranks`` and ``frame`` as in
        ``spans``.
        """
        return table_rows(columns.memory_table(self._run, ranks), frame)

    def waits(self, *, ranks: Iterable[int] | None = None, frame: Frame = None) -> Rows:
        """Every interval in which a rank ran no kernel, and its cause.

        Columns: class, stage, rank, ranks, cause, start_s, end_s, duration_s. ``ranks`` and ``frame`` as in
        ``spans``.
        """
        return table_rows(columns.waits_table(self._run, ranks), frame)

    def save(self, path: str | Path) -> None:
        """Writes everything to one file, which ``Result.load`` reads; TraceError if it cannot."""
        self._run.save(path)

    @classmethod
    def load(cls, path: str | Path) -> Result:
        """A saved result. Raises TraceError if the file holds none."""
        return cls(Run.load(path))

    def to(self, kind: str, path: str | Path | None = None, *, ranks: Iterable[int] | None = None) -> bytes:
        """The result in a report format, as the file that ``run --out`` writes: ``result``, ``summary``,
        ``trace``, and those of installed packages; also written to ``path`` if given.

        ``ranks`` are those that a format with tracks of ranks shows, by default one of each class. Raises
        TraceError if there is no such format or rank, or the file cannot be written.
        """
        known = renderers()
        if kind not in known:
            raise TraceError(f"there is no report format '{kind}'; {nearest(kind, known)}")
        content = b"".join(known[kind].render(self._run, ranks))
        if path is not None:
            write_file(path, [content])
        return content

    def to_perfetto(self, path: str | Path, *, ranks: Iterable[int] | None = None) -> None:
        """Writes the trace for ui.perfetto.dev, compressed if the name ends in ``.gz``.

        A process per class of equal ranks, or per rank of ``ranks``: ``ranks=[0, 17, *range(4096, 4104)]``.
        Raises TraceError if there is no such rank or the file cannot be written.
        """
        write_perfetto(self._run, path, ranks)

    def to_tables(
        self,
        folder: str | Path,
        kind: Literal["csv", "parquet"] = "csv",
        *,
        ranks: Iterable[int] | None = None,
    ) -> tuple[Path, ...]:
        """Writes spans, transfers, memory and waits as files of a folder; ``ranks`` as in ``spans``."""
        return write_tables(self._run, folder, kind, ranks)

    def to_chakra(self, folder: str | Path, *, ranks: Iterable[int] | None = None) -> tuple[Path, ...]:
        """Writes a Chakra execution trace for every rank, or for ``ranks``; needs the extra ``chakra``."""
        return write_chakra(self._run, folder, ranks).paths

    def to_json(self, path: str | Path | None = None) -> str:
        """The figures, the name and the plan as JSON text; also written to ``path`` if given.

        Raises TraceError if the file cannot be written.
        """
        return self.to("result", path).decode()

    def to_html(self, path: str | Path | None = None) -> str:
        """The whole report as one page for a browser; also written to ``path`` if given.

        Raises TraceError if the file cannot be written.
        """
        return self.to("report", path).decode()

    def __repr__(self) -> str:
        worst = fullest_entry(self.summary)
        memory = f"{units.size(worst['total'])} of {units.size(worst['capacity'])}"
        rate = f"{units.count(self.tokens_per_s)} tokens/s"
        text = f"step {units.seconds(self.step_time_s)}, {rate}, MFU {units.percent(self.mfu)}"
        if "inference" in self.plan:
            text = f"TTFT {units.seconds(self.ttft_s)}, TPOT {units.seconds(self.tpot_s)}, {rate}"
        return (
            f"Result: {printable_text(self.name)}\n"
            f"  {text}\n"
            f"  {self.num_ranks:,} rank{'s' * (self.num_ranks != 1)} in {self.num_classes:,} "
            f"class{'es' * (self.num_classes != 1)}, memory {memory}: "
            f"{emphasised_verdict(self.summary)}"
        )

    def __str__(self) -> str:
        return summary_text(self._run)

    def _repr_html_(self) -> str:
        return result_html(self._run)
