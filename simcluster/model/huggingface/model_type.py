"""What a model type of Hugging Face configs is: which key says which dimension."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any

from simcluster.deferred_dataclass import dataclass

Config = Mapping[str, Any]
Keys = str | tuple[str, ...]
"""Key of a config, dotted where it lies deeper, or the several names it has had: the first found counts."""


def get(config: Config, key: str) -> Any:
    """The value of a dotted key, None if it is not there."""
    head, _, rest = key.partition(".")
    value = config.get(head)
    if not rest:
        return value
    return get(value, rest) if isinstance(value, Mapping) else None


def _nothing(config: Config) -> Mapping[str, Any]:
    return {}


@dataclass(frozen=True, slots=True)
class ModelType:
    """A model type.

    ``sizes``: dimension -> its key. ``usual``: what the type does unless its config says otherwise.
    ``plain``: keys that change the mathematics in a way no dimension says, with the values that leave it
    alone. ``besides``: dimensions that follow from several keys. ``needed``: dimensions that a config must
    have. ``remark``: what of the type is left out, as it costs next to nothing. ``read_besides``: keys that
    are refused elsewhere, but that ``besides`` reads.
    """

    family: str
    sizes: Mapping[str, Keys]
    usual: Mapping[str, Any] = field(default_factory=dict)
    plain: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    besides: Callable[[Config], Mapping[str, Any]] = _nothing
    needed: tuple[str, ...] = ("layers", "hidden", "heads", "vocab")
    remark: str = ""
    read_besides: tuple[str, ...] = ()
