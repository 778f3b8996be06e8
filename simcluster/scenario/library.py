"""Checks that a host's ``collectives:`` names algorithms and operations that exist."""

from __future__ import annotations

from simcluster.cluster import ClusterSpec
from simcluster.collectives import Operation, all_algorithms
from simcluster.document import Refused
from simcluster.errors import Problem, nearest

DEFAULT = "default"
"""The protocols of all that have none of their own."""


def check_library(cluster: ClusterSpec) -> None:
    """Refused, with the nearest name, if a written host has protocols for what is no such thing."""
    known = (DEFAULT, *all_algorithms(), *Operation)
    problems = []
    for number, group in enumerate(cluster.written):
        at = f"cluster.groups.{number}" if cluster.groups else "cluster"
        for name in group.host.collectives if group.host else ():
            if name not in known:
                message = f"'{name}' is neither an algorithm nor an operation"
                problems.append(Problem(message, f"{at}.host.collectives.{name}", nearest(name, known)))
    if problems:
        raise Refused(*problems)
