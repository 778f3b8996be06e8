"""``python -m tests.published_plans training.csv [--budget SECONDS] [--pair ID ...]``: a line for each pair.

``training.csv`` has published training runs, as ``simcluster accuracy`` reads them. Framework, batch and
precision are those that were published; mesh, micro-batch, chunks, sharding and recomputation are searched,
for so many seconds a pair. Exit code 1 if the search answers with a plan that the simulator says is slower
than the published one.
"""

from __future__ import annotations

import argparse
import sys
import time

from simcluster.accuracy import read_runs
from simcluster.workers import InlineExecutor
from tests.published_plans.pair import Pair, searched

PAIRS = (
    "vtrain-multi-0016",
    "vtrain-multi-0027",
    "vtrain-multi-0043",
    "vtrain-multi-0089",
    "vtrain-single-0009",
    "vtrain-single-0152",
    "vtrain-single-0249",
    "vtrain-single-0107",
    "vtrain-single-0460",
    "ascend-mindspeed-0018",
    "ascend-mindspeed-0019",
    "ascend-mindspeed-0011",
    "ascend-mindspeed-0016",
    "ascend-mindspeed-0021",
    "ascend-mindspeed-0029",
    "nvidia-mosaic-0039",
    "nvidia-mosaic-0023",
    "nvidia-torchtitan-0033",
    "ascend-mindspeed-0032",
    "simumax-b200-0025",
)
"""One row of each pair; the others of its model and machine are found by their words."""


def main() -> int:
    """Searches pair by pair, and says what stands."""
    parser = argparse.ArgumentParser(prog="python -m tests.published_plans")
    parser.add_argument("table")
    parser.add_argument("--budget", type=float, default=120.0)
    parser.add_argument("--pair", action="append")
    asked = parser.parse_args()
    runs = read_runs(asked.table)
    pairs: list[Pair] = []
    for name in asked.pair or PAIRS:
        began = time.process_time()
        try:
            pair = searched(runs, name, asked.budget, InlineExecutor())
        except ValueError as error:
            print(error, flush=True)
            continue
        pairs.append(pair)
        print(f"{name}: {described(pair)}, {time.process_time() - began:.0f} s of CPU time", flush=True)
    print(summary(pairs))
    return int(not all(pair.holds for pair in pairs))


def described(pair: Pair) -> str:
    """A pair in a line."""
    hand, found = pair.hand_tuned, pair.found
    best = "the published plan" if pair.is_own else found.best.choice.text
    published = (
        f"published {hand.figures.step_time_s:.3f} s simulated ({hand.measured:.3f} s measured)"
        if not hand.figures.refused
        else f"published plan refused: {hand.figures.refused}"
    )
    doubt = "" if hand.fits else ", which does not fit in the simulator"
    sure = "proven" if found.is_proven else f"gap {100 * found.gap:.1f} %"
    if found.best is None:
        sure = "no plan was simulated in time"
    regret = (
        "" if pair.regret is None else f", regret {100 * pair.regret:.1f} % of {len(pair.published)} plans"
    )
    return f"{pair.title}: {published}{doubt}; found {pair.found_s:.3f} s ({sure}): {best}{regret}"


def summary(pairs: list[Pair]) -> str:
    """How many hold, in how many the published plan is chosen, and the regret."""
    fitting = [pair for pair in pairs if pair.hand_tuned.fits]
    held = sum(pair.holds for pair in fitting)
    same = sum(pair.is_published for pair in fitting)
    regrets = sorted(pair.regret for pair in pairs if pair.regret is not None)
    told = f"; measured regret, {len(regrets)} pairs: " if regrets else ""
    if regrets:
        told += f"median {100 * regrets[len(regrets) // 2]:.1f} %, most {100 * regrets[-1]:.1f} %"
    return (
        f"{len(pairs)} pairs, {len(fitting)} with a published plan that fits: found at most as slow in "
        f"{held}, as fast as the published one in {same}{told}"
    )


if __name__ == "__main__":
    sys.exit(main())
