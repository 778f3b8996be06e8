"""Published peaks of memory beside their prediction, without any calibration."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rich.console import RenderableType
from rich.text import Text

from simcluster import units
from simcluster.accuracy.run_row import RunRow
from simcluster.accuracy.run_scenario import Unsupported, entry_of, scenario_of
from simcluster.accuracy.summary import Errors
from simcluster.draw import Column, shown, table
from simcluster.errors import SimclusterError
from simcluster.scenario import Scenario
from simcluster.simulation import simulate

_FIGURES = ("rows", "median", "p90", "worst", "bias")


@dataclass(frozen=True, slots=True)
class MemoryPrediction:
    """A run with the bytes that its framework's tensors take on a device, or why there are none."""

    row: RunRow
    predicted: float = 0.0
    reason: str = ""

    @property
    def error(self) -> float:
        """Predicted / measured - 1."""
        return self.predicted / self.row.memory - 1


def predict_memory(rows: Iterable[RunRow]) -> list[MemoryPrediction]:
    """A prediction, or the reason for none, for every row, in order.

    What publishers state is what PyTorch calls allocated: tensors with their rounding, neither the runtime
    nor the communication library.
    """
    return [_predicted(row) for row in rows]


def _predicted(row: RunRow) -> MemoryPrediction:
    try:
        run = simulate(Scenario.of(scenario_of(row)))
    except Unsupported as reason:
        return MemoryPrediction(row, reason=str(reason))
    except SimclusterError as error:
        return MemoryPrediction(row, reason=error.problems[0].message)
    memory = run.documents["memory"]
    if entry_of(row).stage == "last":
        memory = memory[-1:]
    return MemoryPrediction(row, max(each["allocated"] for each in memory))


def memory_errors(found: Iterable[MemoryPrediction]) -> dict[str, Errors]:
    """The errors by group of rows, then of all together."""
    done = [each for each in found if not each.reason]
    groups: dict[str, list[MemoryPrediction]] = {}
    for each in done:
        groups.setdefault(each.row.group, []).append(each)
    every = {name: Errors.of_errors([each.error for each in group]) for name, group in groups.items()}
    return every | ({"all": Errors.of_errors([each.error for each in done])} if done else {})


def memory_text(found: Sequence[MemoryPrediction], num_worst: int = 0, *, colour: bool = False) -> str:
    """The table by group, the rows farthest off, and why others were not predicted."""
    done = [each for each in found if not each.reason]
    head = f"{len(done):,} of {len(found):,} rows with a peak of memory predicted"
    told: list[RenderableType] = [Text(head, "bold")]
    if done:
        columns = [Column("runs"), *(Column(title, quantity=True) for title in _FIGURES)]
        rows = [[name, *_cells(errors)] for name, errors in memory_errors(found).items()]
        told += ["", table(columns, rows)]
    if num_worst:
        worst = sorted(done, key=lambda each: -abs(each.error))[:num_worst]
        columns = [Column("row"), Column("model", wraps=True)]
        columns += [Column(title, quantity=True) for title in ("measured", "predicted", "error")]
        rows = [
            [
                each.row.name,
                each.row.text("model"),
                units.size(each.row.memory),
                units.size(each.predicted),
                f"{each.error:+.1%}",
            ]
            for each in worst
        ]
        told += ["", Text(f"The {len(worst)} rows farthest off", "bold"), table(columns, rows)]
    if reasons := Counter(each.reason for each in found if each.reason).most_common():
        told += ["", Text("Not predicted", "bold")]
        told += [table([Column(quantity=True), Column(wraps=True)], [(f"{n}", why) for why, n in reasons])]
    told += ["", Text("error = predicted / measured memory - 1; bias: its median", "dim")]
    return shown(*told, colour=colour)


def memory_csv(found: Sequence[MemoryPrediction]) -> str:
    """A line per row: id, group, bytes measured and predicted, error, and why there is no prediction."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("id", "group", "measured_bytes", "predicted_bytes", "error", "not_predicted"))
    for each in found:
        figures = ("", "") if each.reason else (f"{each.predicted:.0f}", f"{each.error:.6g}")
        writer.writerow((each.row.name, each.row.group, f"{each.row.memory:.0f}", *figures, each.reason))
    return text.getvalue().rstrip("\n")


def memory_markdown(found: Sequence[MemoryPrediction]) -> str:
    """A Markdown table: a line per group and one for all."""
    lines = ["| runs | rows | median | p90 | bias |", "|---|--:|--:|--:|--:|"]
    for name, errors in memory_errors(found).items():
        lines.append(
            f"| {name} | {errors.rows} | {errors.median:.1%} | {errors.p90:.1%} | {errors.bias:+.1%} |"
        )
    return "\n".join(lines) + "\n"


def _cells(errors: Errors) -> list[str]:
    figures = (f"{errors.median:.1%}", f"{errors.p90:.1%}", f"{errors.worst:.0%}", f"{errors.bias:+.1%}")
    return [f"{errors.rows:,}", *figures]
