"""The offload of a small plan: the categories of the large one, by patterns that fit any layer."""

from __future__ import annotations

import re

from simcluster.document import validate_data
from simcluster.plan import OffloadPlan, OffloadSpec

LEAST = 0.5
"""Of few tensors a smaller share may be none."""

_NUMBERED = re.compile(r"(?<=\.)(\d+|\{[\d,]+\})(?=\.)")


def small_offload(spec: OffloadSpec, plan: OffloadPlan) -> OffloadSpec:
    """The section for a small model, with what an automatic mode chose written out.

    Layers that are named stand for all, as the small model may not have them.
    """
    if not plan.rules:
        return spec.model_copy(update={"auto": False})
    chosen = {
        name: {
            "to": str(rule.place),
            "match": tuple(dict.fromkeys(_NUMBERED.sub("*", pattern) for pattern in rule.match)),
            "fraction": max(rule.fraction, LEAST),
            "prefetch": rule.ahead,
        }
        for name, rule in plan.rules.items()
    }
    return validate_data(chosen, OffloadSpec)
