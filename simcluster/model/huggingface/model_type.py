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
    """A model type."""

    family: str
    """The family of the model section."""
    sizes: Mapping[str, Keys]
    """Dimension -> its key."""
    usual: Mapping[str, Any] = field(default_factory=dict)
    """What the type does unless its config says otherwise."""
    plain: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    """Keys that change the mathematics in a way no dimension says, with the values that leave it alone."""
    besides: Callable[[Config], Mapping[str, Any]] = _nothing
    """Dimensions that follow from several keys."""
    needed: tuple[str, ...] = ("layers", "hidden", "heads", "vocab")
    """Dimensions that a config must have, unless they are usual."""
    remark: str = ""
    """What of the type is left out, as it costs next to nothing."""
    read_besides: tuple[str, ...] = ()
    """Keys that are refused, or unknown, of other types: ``besides`` reads them, or the remark is of them."""
    left_out: Mapping[str, tuple[tuple[Any, ...], str]] = field(default_factory=dict)
    """Keys that change the mathematics at next to no cost: (values that do not, what is simulated)."""
    own_biases: bool = False
    """Whether ``attention_bias`` and ``mlp_bias`` give all projections of attention and of the MLP biases."""


class ReadConfig(dict[str, Any]):
    """A config that notes which of its keys are looked at."""

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self.looked_at: set[str] = set()

    def get(self, key: str, default: Any = None) -> Any:
        """The value of a key."""
        self.looked_at.add(key)
        return super().get(key, default)

    def __getitem__(self, key: str) -> Any:
        self.looked_at.add(key)
        return super().__getitem__(key)
