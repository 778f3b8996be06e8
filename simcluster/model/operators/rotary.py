"""Rotary position embedding (RoPE, arXiv 2104.09864) in the half-split form of Llama."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np

from simcluster.deferred_dataclass import dataclass
from simcluster.layout import Dims
from simcluster.model.graph import (
    Array,
    Gradient,
    Labels,
    MemoryBound,
    MemoryPass,
    Operator,
    Region,
    Reorder,
    Rewrite,
    Tape,
    TensorType,
    Zigzag,
    token_positions,
)
from simcluster.work import Kernel


@dataclass(frozen=True, slots=True)
class Rotary(MemoryBound):
    """Rotates each pair of head dims by an angle that grows with the position in ``seq``.

    Takes several tensors (queries and keys) in one launch; ``inverse`` turns back, which is the gradient.
    Of every head only the first ``fraction`` of the dims is rotated (GPT-NeoX, Nemotron). ``order`` is that
    in which tokens lie, ``position`` where the first of them stands.
    """

    operands: tuple[Labels, ...]
    theta: float = 10000.0
    inverse: bool = False
    fraction: float = 1.0
    order: Zigzag | None = None
    position: int = 0

    kind: ClassVar[str] = "rotary"
    family: ClassVar[str] = "rotary"
    launch: ClassVar[MemoryPass] = MemoryPass(Kernel.ELEMENTWISE, flops_per_element=3, accumulates=False)

    def infer(self, inputs: Sequence[TensorType]) -> tuple[TensorType, ...]:
        """Outputs like the inputs."""
        return tuple(inputs)

    def dims(self) -> Dims:
        """Jointly linear; a head's dims turn in pairs and stay together."""
        every = range(len(self.operands))
        return Dims(
            self.operands,
            self.operands,
            unsplittable=(("head_dim", "head dims are rotated in pairs across the whole head"),),
            linear=(frozenset(every),),
            terms=tuple((frozenset({index}),) for index in every),
        )

    def gradient(
        self, tape: Tape, inputs: Sequence[str], outputs: Sequence[str], grads: Sequence[Gradient | None]
    ) -> tuple[Gradient | None, ...]:
        """The inverse rotation."""
        live = [i for i, grad in enumerate(grads) if grad is not None and tape.needs_gradient(inputs[i])]
        back = replace(self, operands=tuple(self.operands[i] for i in live), inverse=not self.inverse)
        made = tape.emit("grad", back, [str(grads[i]) for i in live]) if live else ()
        gradients: list[str | None] = [None] * len(inputs)
        for index, name in zip(live, made, strict=True):
            gradients[index] = name
        return tuple(gradients)

    def rewrite(self, request: Rewrite) -> Operator | None:
        """The angle is that of where a token stands."""
        return replace(self, order=request.order) if isinstance(request, Reorder) else None

    def evaluate(self, inputs: Sequence[Array], region: Region) -> tuple[Array, ...]:
        """The rotated tensors."""
        return tuple(self._rotate(x, names, region) for x, names in zip(inputs, self.operands, strict=True))

    def _rotate(self, x: Array, names: Labels, region: Region) -> Array:
        half = int(x.shape[-1] * self.fraction) // 2
        position = self.position + token_positions(
            self.order, region.start("seq"), x.shape[names.index("seq")]
        )
        angle = np.outer(position, self.theta ** (-np.arange(half) / half))
        shape = [1] * x.ndim
        shape[names.index("seq")], shape[-1] = angle.shape
        sign = -1 if self.inverse else 1
        cos = np.cos(angle).reshape(shape).astype(x.dtype)
        sin = (sign * np.sin(angle)).reshape(shape).astype(x.dtype)
        low, high, rest = x[..., :half], x[..., half : 2 * half], x[..., 2 * half :]
        return np.concatenate([low * cos - high * sin, high * cos + low * sin, rest], axis=-1)
