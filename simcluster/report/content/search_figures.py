"""The search of strategies in words: what it cost by its own figures, and what was simulated."""

from __future__ import annotations

from simcluster import units
from simcluster.trace import RunDocument


def search_text(search: RunDocument) -> str:
    """The cost that the search minimised beside the simulated time, and how sure it is of its answer."""
    parts = [f"{search['operators_searched']:,} operators searched{_fixed(search)}"]
    cost, unit = search["cost"], search["unit"]
    priced = units.seconds(cost) if unit == "s" else f"{units.count(cost)} {unit}"
    parts.append(f"its cost {priced} a micro-batch by {search['cost_model']}'s model{_certainty(search)}")
    if search["simulated_step_s"] is not None:
        parts.append(f"simulated {units.seconds(search['simulated_step_s'])} a step")
    return "; ".join([*parts, *search["notes"]])


def _fixed(search: RunDocument) -> str:
    candidates = f" among {search['candidates']:,} candidates" if search["candidates"] else ""
    fixed = f", {search['operators_fixed']:,} fixed" if search["operators_fixed"] else ""
    return f"{candidates}{fixed}"


def _certainty(search: RunDocument) -> str:
    gap = search["gap"]
    if gap is None:
        return ""
    # Sums in another order differ in their last digits.
    return ", the least" if gap < 1e-9 else f", at most {units.percent(gap)} above the least"
