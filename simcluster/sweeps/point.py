"""One point of a sweep: a scenario with some changes, simulated, as a row of figures."""

from __future__ import annotations

from typing import Any

from simcluster.errors import SimclusterError, SimulationError
from simcluster.scenario import Scenario
from simcluster.sweeps.figures import figures_of

IMPOSSIBLE, FAILED, LOST = "impossible", "failed", "lost"
"""Verdicts of rows without figures: an impossible plan, a simulation that went wrong, a worker that died."""

Row = dict[str, Any]
"""``verdict``, ``fits``, ``reason`` and, unless it has none, the figures; values are those of JSON."""


def run_point(scenario: Scenario, changes: tuple[tuple[str, str], ...]) -> Row:
    """The row of a scenario with some changes: figures, or why there are none.

    The process that hands points out to others imports nothing of the simulator itself.
    """
    from simcluster.garbage import no_collection
    from simcluster.report import fullest_entry, shortage_text, verdict_text
    from simcluster.simulation import simulate

    try:
        with no_collection():
            changed = scenario.changed(changes, "--vary")
            summary = simulate(changed).documents["summary"]
    except SimclusterError as error:
        verdict = FAILED if isinstance(error, SimulationError) else IMPOSSIBLE
        return row_without_figures(verdict, "; ".join(problem.message for problem in error.problems))
    except MemoryError:
        return row_without_figures(FAILED, "this machine has not enough memory to simulate it")
    fullest = fullest_entry(summary)
    values = summary | {
        "exposed_communication_s": sum(summary["exposed_communication_s"].values()),
        "peak_memory_bytes": fullest["total"],
        "needed_memory_bytes": fullest["total"] + fullest.get("fragments", 0),
        "memory_capacity_bytes": fullest["capacity"],
    }
    return {
        "verdict": verdict_text(summary),
        "fits": bool(summary["fits"]),
        "reason": shortage_text(summary),
        **{figure.column: values[figure.column] for figure in figures_of(changed)},
    }


def row_without_figures(verdict: str, reason: str) -> Row:
    """The row of a point that could not be simulated."""
    return {"verdict": verdict, "fits": False, "reason": reason}
