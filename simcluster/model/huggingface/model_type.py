"""What a model type of Hugging Face configs has: config keys of dimensions, defaults, refused keys."""

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
    """How the config of one ``model_type`` gives the dimensions of a model."""

    family: str
    """The family of the model section."""
    sizes: Mapping[str, Keys]
    """The config key of every dimension, or its aliases."""
    usual: Mapping[str, Any] = field(default_factory=dict)
    """Dimensions that hold where the config has no key for them."""
    plain: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    """Keys that no dimension can express: the values that change nothing; others are refused."""
    besides: Callable[[Config], Mapping[str, Any]] = _nothing
    """Gives dimensions that follow from several keys, or need a check of their own."""
    needed: tuple[str, ...] = ("layers", "hidden", "heads", "vocab")
    """Dimensions that a config must have, unless ``usual`` does."""
    remark: str = ""
    """What of every model of the type is not simulated, as it costs next to nothing; shown by every run."""
    read_besides: tuple[str, ...] = ()
    """Keys that are accepted with any value: ``besides`` reads them, or the remark is about them."""
    left_out: Mapping[str, tuple[tuple[Any, ...], str]] = field(default_factory=dict)
    """Keys that change the model at next to no cost: (values that do not change it, what is simulated)."""
    own_biases: bool = False
    """Whether ``attention_bias`` and ``mlp_bias`` give all projections of attention and of the MLP biases."""


class ReadConfig(dict[str, Any]):
    """A config that records which of its keys are read."""

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self.read_keys: set[str] = set()

    def get(self, key: str, default: Any = None) -> Any:
        """The value of a key."""
        self.read_keys.add(key)
        return super().get(key, default)

    def __getitem__(self, key: str) -> Any:
        self.read_keys.add(key)
        return super().__getitem__(key)
