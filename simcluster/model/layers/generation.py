"""Generation: what is read, how much is generated, and which passes of it a graph holds.

The *prefill* reads the prompt and makes the first token; every *decode step* reads the token before and makes
the next. All passes have the same weights, and caches of keys and values that the ones fill for the others.
"""

from __future__ import annotations

from simcluster.deferred_dataclass import dataclass
from simcluster.model.attributes import Scores
from simcluster.model.graph import BlockBuilder
from simcluster.model.layers.transformer_layers import KEY
from simcluster.model.operators import CachedAttention, CacheWrite
from simcluster.work import DType


@dataclass(frozen=True, slots=True)
class Generation:
    """A generation of ``tokens`` tokens after prompts of ``prompt``, for ``flights`` batches in a pipeline.

    The passes of a graph are the prefill, which makes token 0, and those ``steps`` that make the tokens of
    these numbers (1 and above, rising). Caches hold ``dtype`` and have room for all tokens.
    """

    prompt: int
    tokens: int
    steps: tuple[int, ...]
    flights: int
    dtype: DType

    @property
    def capacity(self) -> int:
        """Positions of a cache."""
        return self.prompt + self.tokens

    @property
    def num_passes(self) -> int:
        """Passes of a graph."""
        return 1 + len(self.steps)

    def position(self, token: int) -> int:
        """Position of the first token that is read to make ``token``."""
        return self.prompt + token - 1 if token else 0

    def prefix(self, token: int) -> str:
        """How the names of instances begin in the pass that makes ``token``."""
        return f"decode.{token}." if token else ""

    def length(self, token: int) -> int:
        """How many tokens the pass reads that makes ``token``."""
        return 1 if token else self.prompt


@dataclass(frozen=True, slots=True)
class LayerCaches:
    """The caches of a layer in the pass that makes one ``token``."""

    generation: Generation
    token: int

    @property
    def position(self) -> int:
        """Position of the first token that is read."""
        return self.generation.position(self.token)

    def attend(
        self, build: BlockBuilder, name: str, batch: int, q: str, k: str, v: str, rule: Scores, scale: float
    ) -> str | None:
        """Writes keys and values into the caches and attends to all that are cached; None in a prefill, which
        attends to its own.
        """
        caches = []
        for part, made in (("keys", k), ("values", v)):
            heads = build.values[made].type.shape[2:]
            shape = (self.generation.flights, batch, self.generation.capacity, *heads)
            caches.append(build.cache(f"{name}.{part}", shape, self.generation.dtype))
        build.update(f"{name}.write", CacheWrite((KEY, KEY), self.position), caches, k, v)
        if not self.token:
            return None
        return build.add(name, CachedAttention(self.position, rule, scale), q, *caches)
