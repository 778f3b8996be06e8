"""What a framework profile changes against the ideal one, in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from simcluster import units
from simcluster.plan.execution import Buckets, ExecutionPolicy
from simcluster.plan.spec import FrameworkSpec


def describe_profile(changes: Mapping[str, Any]) -> list[str]:
    """A phrase for every switch that differs, from ``FrameworkSpec.changes``."""
    said = dict(changes)
    if "reduction.limit" in said:
        said.pop("reduction.bucket", None)
    return [FrameworkSpec.describe(key, value) for key, value in said.items()]


def describe_fusion(policy: ExecutionPolicy) -> list[str]:
    """The scenario's ``fusion`` in words; None if the profile decides."""
    if policy.no_fusion:
        return ["no collectives fused"]
    if policy.fusion is None:
        return []
    said = [
        f"{what} {_buckets(policy, name)}"
        for name, what in _TRAVELLING.items()
        if name in policy.fusion.searched or policy.fusion.of_operation(name) is not None
    ]
    if said and policy.fusion.ids:
        numbers = sorted(set(policy.fusion.ids.values()))
        said.append(f"{len(policy.fusion.ids)} parameters with fusion id {', '.join(map(str, numbers))}")
    return said


_TRAVELLING = {
    "all_reduce": "all-reduces of gradients",
    "reduce_scatter": "reduce-scatters of gradients",
    "all_gather": "all-gathers of weights",
}


def _buckets(policy: ExecutionPolicy, name: str) -> str:
    """What closes the buckets of an operation."""
    assert policy.fusion is not None
    buckets = policy.fusion.of_operation(name)
    if name in policy.fusion.searched:
        return f"as a search found best, {_closed(buckets)}"
    return _closed(buckets)


def _closed(buckets: Buckets | None) -> str:
    if buckets is None:
        return "as the profile has them"
    if buckets.closed_after:
        return f"cut in {len(buckets.closed_after)} places"
    if buckets.ends:
        return f"up to {', '.join(map(str, buckets.ends))} and the rest"
    if buckets.units is not None:
        return "by layer" if buckets.units == 1 else f"{buckets.units} layers together"
    if buckets.limit is None:
        return "in one bucket"
    first = f", the first to {units.size(buckets.first)}" if buckets.first else ""
    return "each by itself" if buckets.limit == 1 else f"fused to {units.size(buckets.limit)}{first}"
