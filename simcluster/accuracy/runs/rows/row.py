"""Published training runs, one per line of a CSV file."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from simcluster.accuracy.runs.rows.spelling import plain_cells
from simcluster.accuracy.table import CellError, parse_count, parse_figure, read_table
from simcluster.deferred_dataclass import dataclass
from simcluster.errors import Problem

_COUNTS = (
    "layers",
    "hidden",
    "heads",
    "kv_heads",
    "ffn",
    "vocab",
    "seq_len",
    "num_devices",
    "devices_per_host",
    "data",
    "tensor",
    "pipeline",
    "context",
    "expert",
    "virtual_pipeline",
    "micro_batch",
    "global_batch",
)
COLUMNS = (
    "id",
    "source",
    "framework",
    "model",
    *_COUNTS[:7],
    "hardware",
    "inter_link",
    *_COUNTS[7:15],
    "sequence_parallel",
    "zero_stage",
    *_COUNTS[15:],
    "recompute",
    "precision",
    "schedule",
    "offload",
    "metric",
    "value",
    "unit",
    "peak_mem_gib",
    "notes",
)
"""The columns of the file, in any order; further ones are kept out of it."""

_OPTIONAL = ("source", "notes", "unit", "peak_mem_gib", "offload", "inter_link")
_REQUIRED = tuple(column for column in COLUMNS if column not in _OPTIONAL)
_GIB = 2**30
_UNITS = {"GiB": _GIB, "GB": 10**9, "MiB": 2**20, "MB": 10**6}
_DURATIONS = {
    "": 1.0,
    "min": 60.0,
    "minute": 60.0,
    "h": 3600.0,
    "hr": 3600.0,
    "hour": 3600.0,
    "d": 86400.0,
    "day": 86400.0,
}
_TIMES = {"m": 1e6, "b": 1e9, "t": 1e12}
_TOKENS = re.compile(r"([0-9.]+) ?([mbt])(?:illion|rillion)? tokens", re.IGNORECASE)
_FITTED = ("0", "0.0", "no", "none", "false", "fits", "fit", "ok")
"""How rows of the metric oom say that there was room."""
_LOGGED_GB = "GB as logged"
"""How notes say that a memory is in 10^9 bytes, as Megatron-Bridge logs it (report_memory, from memory)."""
_SHARE = "activation_mem_pct_of_tp_baseline"
"""The metric of Korthikanti et al. (arXiv 2205.05198, figure 7)."""
_RANK = re.compile(r"\b(rank[0-9]+):")
_DERIVED = re.compile(r"derived step_s=([0-9.]+)")


@dataclass(frozen=True, slots=True)
class MeasuredRun:
    """One measured run; ``line`` is where the file has it, ``words`` and ``counts`` are its cells by column.

    A count that is not stated is absent.
    """

    line: int
    words: Mapping[str, str]
    counts: Mapping[str, int]
    value: float
    peak_memory: float | None

    @property
    def name(self) -> str:
        """Its id."""
        return self.words["id"]

    @property
    def hardware(self) -> str:
        """The publisher's words for it."""
        return self.words["hardware"]

    @property
    def operation(self) -> str:
        """``training``, for every row."""
        return "training"

    @property
    def group(self) -> str:
        """The publisher: the first two words of the id, which its rows share."""
        return "-".join(self.name.split("-")[:2])

    def count(self, column: str, otherwise: int = 1) -> int:
        """The count in a column; ``otherwise`` where the row does not state it."""
        return self.counts.get(column, otherwise)

    @property
    def step_seconds(self) -> float | None:
        """Seconds per step, as measured or as samples or tokens per second imply; None without either."""
        if self.words["metric"] == "step_time":
            return self.value
        if {"global_batch", "seq_len"} <= set(self.counts):
            samples, tokens = self.counts["global_batch"], self.counts["seq_len"]
            done = {
                "tokens_per_s": samples * tokens,
                "tokens_per_s_per_gpu": samples * tokens / self.count("num_devices"),
                "samples_per_s": samples,
                "samples_per_s_per_gpu": samples / self.count("num_devices"),
            }.get(self.words["metric"])
            if done is not None:
                return done / self.value
        if self.words["metric"] == "time_to_train":
            return self._step_of_whole_run
        derived = _DERIVED.search(self.words.get("notes", ""))
        return float(derived[1]) if derived else None

    @property
    def _step_of_whole_run(self) -> float | None:
        """Seconds per step of a run whose duration and number of tokens are stated; None without them."""
        tokens = _TOKENS.search(self.words.get("notes", ""))
        unit = _DURATIONS.get(self.words.get("unit", "").lower().rstrip("s"))
        if tokens is None or unit is None or not {"global_batch", "seq_len"} <= set(self.counts):
            return None
        steps = (
            float(tokens[1])
            * _TIMES[tokens[2].lower()]
            / (self.counts["global_batch"] * self.counts["seq_len"])
        )
        return self.value * unit / steps

    @property
    def fits(self) -> bool | None:
        """Whether the run fitted into memory, where that is what the row states."""
        if self.words["metric"] != "oom":
            return None
        return self.words["value"].strip().lower() in _FITTED

    @property
    def is_deterministic(self) -> bool:
        """Whether it ran in a deterministic mode, with other kernels: its time says little of others."""
        return "deterministic-mode" in self.words.get("notes", "")

    @property
    def goes_on(self) -> bool:
        """Whether its memory is that of a run that went on from a checkpoint, with moments from the start.

        Then its notes have two figures for a rank, of which the row states the larger.
        """
        ranks = _RANK.findall(self.words.get("notes", ""))
        return len(set(ranks)) < len(ranks)

    @property
    def activation_memory(self) -> float | None:
        """Bytes of activations on the device that has most, where the row states them in a known unit."""
        size = _UNITS.get(self.words.get("unit", ""))
        return self.value * size if self.words["metric"] == "activation_mem" and size else None

    @property
    def activation_share(self) -> float | None:
        """Those bytes as a share of what tensor parallelism alone takes, where the row states that."""
        return self.value / 100 if self.words["metric"] == _SHARE else None

    @property
    def of_tensor_parallelism_alone(self) -> MeasuredRun:
        """The same run without sequence parallelism and recomputation, which shares are measured against."""
        return replace(self, words={**self.words, "sequence_parallel": "false", "recompute": "none"})


def read_runs(path: str | Path, refused: list[Problem] | None = None) -> list[MeasuredRun]:
    """The rows of a file, in its order.

    Raises ScenarioError, with every problem and its ``file:line:column``: columns that are missing, numbers
    that are none. What is wrong with single rows goes into ``refused``, if that is given.
    """
    return read_table(path, COLUMNS, _REQUIRED, _run, refused)


def _run(line: int, written: Mapping[str, str]) -> MeasuredRun:
    written = plain_cells(written)
    stated = {name: parse_count(written, name) for name in _COUNTS}
    counts = {name: number for name, number in stated.items() if number is not None}
    peak = parse_figure(written, "peak_mem_gib")
    value = parse_figure(written, "value") if written["metric"] != "oom" else 0.0
    if value is None:
        if peak is None:
            raise CellError("value", "is missing")
        written, value = written | {"metric": "peak_mem"}, 0.0
    unit = _UNITS["GB"] if _LOGGED_GB in written.get("notes", "") else _GIB
    if peak is None and written["metric"] in ("peak_mem", "reserved_mem"):
        peak, unit = value, _UNITS.get(written.get("unit", ""), _GIB)
    return MeasuredRun(line, written, counts, value, None if peak is None else peak * unit)
