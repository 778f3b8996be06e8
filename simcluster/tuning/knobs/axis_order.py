"""Where mesh axes lie: what communicates most within a host, what communicates least across."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from simcluster import units
from simcluster.scenario import Scenario
from simcluster.tuning.knobs.adapted_stages import mesh_changes
from simcluster.tuning.knobs.knob import Changes, Knob, KnobPurpose
from simcluster.tuning.knobs.present_run import PresentRun

_INNERMOST = ("expert", "context", "tensor")
"""What communicates in every layer, what most of all last."""


class AxisOrderKnob(Knob):
    """Tensor groups inside hosts, stages across."""

    kind = "axis order"
    serves = frozenset({KnobPurpose.SPEED})
    source = (
        "Narayanan et al. 2021, takeaway 1: tensor parallelism inside a host, pipeline stages across hosts"
    )

    def turns(self, scenario: Scenario, plan: Mapping[str, Any]) -> Iterator[Changes]:
        """Tensor last; stages first and what communicates in every layer last."""
        sizes = scenario.spec.parallel.sizes
        outer = [name for name in sizes if name == "pipeline"]
        inner = [name for name in _INNERMOST if name in sizes]
        others = [name for name in sizes if name not in (*outer, *inner)]
        last = [*(name for name in sizes if name != "tensor"), *(name for name in sizes if name == "tensor")]
        yielded = [_effective(sizes, list(sizes))]
        for order in (last, [*outer, *others, *inner]):
            if _effective(sizes, order) not in yielded:
                yielded.append(_effective(sizes, order))
                yield mesh_changes(scenario, plan, {name: sizes[name] for name in order})

    def reason(self, present: PresentRun) -> str:
        """Groups of an axis that communicates in every layer span hosts."""
        cluster = present.scenario.cluster
        if cluster.mixed:  # ranks of its groups of hosts are not alike, whatever the order
            return ""
        sizes, devices = present.plan["mesh"], cluster.host.num_devices
        for axis in reversed(_INNERMOST):
            if sizes.get(axis, 1) > 1 and (hosts := _hosts_spanned(sizes, axis, devices)) > 1:
                share = units.percent(present.exposed(axis))
                return (
                    f"groups of {axis} span {hosts} hosts of {devices} devices; {share} of the step is their "
                    "exposed communication"
                )
        return ""


def _effective(sizes: Mapping[str, int], order: list[str]) -> list[str]:
    """An order without the axes of one rank, which may stand anywhere."""
    return [name for name in order if sizes[name] > 1]


def _hosts_spanned(sizes: Mapping[str, int], axis: str, devices: int) -> int:
    """Over how many hosts of so many devices the first group of an axis reaches; ranks of the last axis are
    neighbours.
    """
    names = list(sizes)
    stride = math.prod(sizes[name] for name in names[names.index(axis) + 1 :])
    return len({rank * stride // devices for rank in range(sizes[axis])})
