"""Optimizer updates: one parameter's step, elementwise, in whatever layout the parameter's states have.

Inputs are the weights (the fp32 master copy in mixed precision), the gradient and the states; outputs are the
new weights and states and, in mixed precision, the weights cast back for the next forward pass.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from simcluster.deferred_dataclass import dataclass
from simcluster.layout import Dims, Strategy
from simcluster.model.graph import Array, MemoryBound, MemoryPass, Region, TensorType
from simcluster.model.weight_matrix import WeightMatrix
from simcluster.work import DType, Kernel


class OptimizerOperator(MemoryBound):
    """Base of what runs in a step's end: whole updates, and the primitives that some are made of."""

    family: ClassVar[str] = "optimizer"
    launch: ClassVar[MemoryPass] = MemoryPass(Kernel.OPTIMIZER, flops_per_element=10, accumulates=False)

    gradient_input: ClassVar[int | None] = None
    """Which input is the gradient, if it is read here."""

    weights_output: ClassVar[int | None] = None
    """Which output are the new weights, if they are made here."""


@dataclass(frozen=True, slots=True)
class Update(OptimizerOperator):
    """Base of the optimizers; ``cast`` is the dtype of the extra output in mixed precision, or None."""

    learning_rate: float = 1e-3
    weight_decay: float = 0.0
    momentum: float = 0.9
    beta1: float = 0.9
    beta2: float = 0.999
    eps: float = 1e-8
    cast: DType | None = None

    gradient_input: ClassVar[int | None] = 1
    weights_output: ClassVar[int | None] = 0
    states: ClassVar[tuple[str, ...]] = ()

    sparse: ClassVar[bool] = False
    """Whether it changes only those rows of a table that were looked up, where its gradient says which."""

    in_parts: ClassVar[bool] = False
    """Whether it runs as its primitives, with results of their own, also where a parameter lies whole."""

    on_hosts: ClassVar[bool] = False
    """Whether training tools have a kernel of it for the processors of hosts (DeepSpeedCPUAdam)."""

    least_decay: ClassVar[float] = 0.0
    """The weight decay from which rounding errors of gradients stay small in the weights."""

    def of(self, parameter: str) -> Update:
        """The rule of a parameter: this one, where all have the same."""
        return self

    def on(self, matrix: WeightMatrix | None) -> Update:
        """The rule of one parameter, which may be used as a matrix: of most optimizers this one."""
        return self

    def matrix_strategy(self, split: Sequence[Sequence[str]]) -> Strategy:
        """How the primitive that needs whole matrices is split, of a parameter with dims split so; of most
        optimizers there is none.
        """
        return Strategy()

    @property
    def all_states(self) -> tuple[str, ...]:
        """The states that it keeps of some parameters: of most optimizers those of all."""
        return self.states

    @property
    def slope(self) -> float:
        """How much an update changes at most, in learning rates, per change of the gradient."""
        return 1.0

    def infer(self, inputs: Sequence[TensorType]) -> tuple[TensorType, ...]:
        """New weights, new states, and the cast weights."""
        weights, _, *states = inputs
        extra = () if self.cast is None else (TensorType(weights.shape, self.cast),)
        return (weights, *states, *extra)

    def dims(self) -> Dims:
        """Every element for itself."""
        names = ("elements",)
        count = 1 + len(self.states) + (self.cast is not None)
        return Dims((names,) * (2 + len(self.states)), (names,) * count)

    def evaluate(self, inputs: Sequence[Array], region: Region) -> tuple[Array, ...]:
        """One step; ``region.step`` counts from 1."""
        weights, grad, *states = inputs
        made = self.step(weights, grad, tuple(states), region.step)
        return made if self.cast is None else (*made, made[0].copy())

    @abstractmethod
    def step(self, weights: Array, grad: Array, states: tuple[Array, ...], step: int) -> tuple[Array, ...]:
        """New weights and states."""


@dataclass(frozen=True, slots=True)
class Sgd(Update):
    """``w - lr (g + wd w)``."""

    kind: ClassVar[str] = "sgd"

    def step(self, weights: Array, grad: Array, states: tuple[Array, ...], step: int) -> tuple[Array, ...]:
        """No state."""
        return (weights - self.learning_rate * (grad + self.weight_decay * weights),)


@dataclass(frozen=True, slots=True)
class Momentum(Update):
    """Heavy ball: ``v = mu v + g``, ``w - lr v``."""

    kind: ClassVar[str] = "momentum"
    states: ClassVar[tuple[str, ...]] = ("velocity",)

    def step(self, weights: Array, grad: Array, states: tuple[Array, ...], step: int) -> tuple[Array, ...]:
        """One velocity per weight."""
        velocity = self.momentum * states[0] + grad + self.weight_decay * weights
        return (weights - self.learning_rate * velocity, velocity)


@dataclass(frozen=True, slots=True)
class AdamUpdate(Update):
    """Base of the optimizers that keep Adam's two moments."""

    states: ClassVar[tuple[str, ...]] = ("moment1", "moment2")

    @property
    def slope(self) -> float:
        """One over ``eps``, where the gradient is close to zero."""
        return 1 / self.eps

    def change(self, grad: Array, states: tuple[Array, ...], step: int) -> tuple[Array, Array, Array]:
        """Adam's step before the learning rate, and the new moments; ``step`` counts from 1."""
        first = self.beta1 * states[0] + (1 - self.beta1) * grad
        second = self.beta2 * states[1] + (1 - self.beta2) * grad * grad
        mean = first / (1 - self.beta1**step)
        spread = np.sqrt(second / (1 - self.beta2**step))
        return mean / (spread + self.eps), first, second


@dataclass(frozen=True, slots=True)
class Adam(AdamUpdate):
    """Adam (arXiv 1412.6980) with L2 regularisation added to the gradient."""

    kind: ClassVar[str] = "adam"

    def step(self, weights: Array, grad: Array, states: tuple[Array, ...], step: int) -> tuple[Array, ...]:
        """Two moments per weight, both corrected for their start at zero."""
        change, first, second = self.change(grad + self.weight_decay * weights, states, step)
        return (weights - self.learning_rate * change, first, second)


@dataclass(frozen=True, slots=True)
class AdamW(AdamUpdate):
    """AdamW (arXiv 1711.05101): weight decay apart from the gradient."""

    kind: ClassVar[str] = "adamw"
    on_hosts: ClassVar[bool] = True

    def step(self, weights: Array, grad: Array, states: tuple[Array, ...], step: int) -> tuple[Array, ...]:
        """As Adam, the decay applied to the weights directly."""
        change, first, second = self.change(grad, states, step)
        return (weights - self.learning_rate * (change + self.weight_decay * weights), first, second)
