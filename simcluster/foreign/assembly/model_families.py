"""BERT, T5 and vision transformers: which settings of a file apply to them, and which choices they fix."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from simcluster.foreign.translation import Facts
from simcluster.model import ModelSpec

TITLES: Mapping[str, str] = {"bert": "BERT", "t5": "T5", "vit": "vision transformer"}

ALWAYS: Mapping[str, Mapping[str, Any]] = {
    "bert": {
        "norm": "layer",
        "activation": "gelu",
        "positions": "learned",
        "bias": True,
        "qkv_bias": True,
        "tied": True,
    },
    "t5": {"norm": "rms", "positions": "relative", "bias": False, "qkv_bias": False},
    "vit": {"norm": "layer", "activation": "gelu", "positions": "learned", "bias": True, "qkv_bias": True},
}
"""What a family fixes about its layers, whatever a file says: scenarios have no keys for it."""


def adapt_to_family(facts: Facts, named: str | None = None) -> None:
    """Drops facts that the stated family has no key for; one that contradicts the family changes the result.

    ``named`` is a model of the catalog that was given with the file, whose family counts.

    Call it when every fact about the model is stated. Defaults of a tool count as what its file says.
    """
    family = facts.get("model.family")
    if named is not None and named in ModelSpec.entries():
        family = ModelSpec.load(named).family
    if family not in ALWAYS:
        return
    always, title = ALWAYS[family], TITLES[family]
    for path in [path for path in facts.known if path.startswith("model.") and path.count(".") == 1]:
        key, value = path.removeprefix("model."), facts.get(path)
        if ModelSpec.family_knows(family, key):
            continue
        flag = facts.drop(path)
        if key in always and always[key] != value:
            facts.unsupported(
                flag, f"{key}: {_shown(always[key])} instead of {_shown(value)}, as in every {title} here"
            )
        elif key in always and flag.where:
            facts.effectless(flag, f"as in every {title}")
        elif key not in always:
            facts.unsupported(flag, f"a {title} is simulated, which has no '{key}'")


def _shown(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
