"""Results of sweeps without simulating anything."""

from __future__ import annotations

from simcluster.sweeps import OBJECTIVES, RankedPoints, SweepResult, SweepSpace, Variation
from simcluster.sweeps.figures import TRAINING_FIGURES

GIB = 2**30


def row(step, memory, *, capacity=80, verdict=""):
    """A row with a step of so many seconds and so many GiB of memory."""
    over = memory > capacity
    verdict = verdict or ("does not fit" if over else "fits")
    fits = verdict == "fits"
    figures = dict.fromkeys((figure.column for figure in TRAINING_FIGURES), 0.5)
    return {
        "verdict": verdict,
        "fits": fits,
        "reason": "" if fits else f"{verdict}: stage 0 needs {memory} GiB of {capacity} GiB",
        **figures,
        "step_time_s": float(step),
        "tokens_per_s": 1000.0 / step,
        "peak_memory_bytes": memory * GIB,
        "needed_memory_bytes": memory * GIB,
        "memory_capacity_bytes": capacity * GIB,
        "num_ranks": 8,
    }


def impossible(reason="8 / 3 is not a whole number"):
    """A row of an impossible plan."""
    return {"verdict": "impossible", "fits": False, "reason": reason}


def ranked_points(rows, settings=None, objective="step_time", missing=()):
    """The points with these rows, but for some points that are not done."""
    settings = settings or [f"training.micro_batch={','.join(map(str, range(1, len(rows) + 1)))}"]
    space = SweepSpace.of([Variation.parse(setting) for setting in settings])
    assert space.num_points == len(rows)
    points = tuple((point, row) for point, row in enumerate(rows) if point not in missing)
    return RankedPoints("demo", space, OBJECTIVES[objective], TRAINING_FIGURES, points)


def sweep_result(*arguments, **named):
    """The result with the points of ``ranked_points``."""
    return SweepResult(ranked_points(*arguments, **named))
