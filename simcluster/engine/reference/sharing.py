"""Max-min fair rates of flows that share links (DESIGN 4.8), by progressive filling.

Every flow's rate rises equally until a link of it is full or it reaches its cap. The *share* of a link is
what each of its flows that still rise would get of it: (capacity - used by frozen flows) / their load.
A link is a *local bottleneck* when no flow on it can rise only to less, on another link or to its cap; all
local bottlenecks freeze their flows in one round. A flow's cap is a link of its own.

The rates do not depend on the order of flows or links, nor on whether equal flows on equal links are given
one by one or as one flow with the summed loads, to the last bit: loads are multiples of 2^-20, so their sums
are exact; what a round's flows use of a link is the sum, by ascending rate, of rate x (exact sum of the loads
at that rate), which sees a rate once however many flows have it; and rounds see only shares, never counts.
Components that share no link do not touch each other's numbers, so any union of them may be solved at once.
"""

from __future__ import annotations

from collections.abc import Sequence

from simcluster.engine.communication import MOST

Row = Sequence[tuple[int, float]]
"""A flow's (link, load) pairs."""


def fair_rates(rows: Sequence[Row], caps: Sequence[float], capacity: Sequence[float]) -> list[float]:
    """The rate of every flow (bytes/s on a link with load 1).

    ``capacity`` [links] and ``caps`` [flows] are in bytes/s.
    """
    load: dict[int, float] = {}
    for row in rows:
        for link, part in row:
            load[link] = load.get(link, 0.0) + part
    if max(load.values(), default=0.0) >= MOST:
        raise ValueError("the loads on one link add up to 2^33 or more: their sum would not be exact")
    used = dict.fromkeys(load, 0.0)
    share = {link: capacity[link] / total for link, total in load.items()}
    rates = list(caps)
    rising = list(range(len(rows)))
    while rising:
        reach = {flow: min([caps[flow], *[share[link] for link, _ in rows[flow]]]) for flow in rising}
        open_links = {link for flow in rising for link, _ in rows[flow] if reach[flow] < share[link]}
        left = []
        spent: dict[tuple[float, int], float] = {}
        for flow in rising:
            rate = reach[flow]
            if rate != caps[flow] and all(link in open_links for link, _ in rows[flow]):
                left.append(flow)
                continue
            rates[flow] = rate
            for link, part in rows[flow]:
                spent[rate, link] = spent.get((rate, link), 0.0) + part
        now: dict[int, float] = {}
        for rate, link in sorted(spent):
            gone = spent[rate, link]
            load[link] -= gone
            now[link] = now.get(link, 0.0) + rate * gone
        for link, more in now.items():
            used[link] += more
            if load[link] > 0:
                # Exactly it never falls; rounding must not make it.
                share[link] = max(share[link], (capacity[link] - used[link]) / load[link])
        rising = left
    return rates
