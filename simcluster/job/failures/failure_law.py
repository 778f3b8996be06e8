"""Laws of the time between failures of one component, drawn as arrays."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from simcluster.deferred_dataclass import dataclass

Seconds: TypeAlias = NDArray[np.float64]


class FailureLaw(ABC):
    """How long a component works until it fails, in seconds; what replaces it begins anew."""

    kind: ClassVar[str]
    mean: float

    @abstractmethod
    def lifetimes(self, count: int, generator: np.random.Generator) -> Seconds:
        """So many times from new to failure."""

    @abstractmethod
    def residual(self, count: int, generator: np.random.Generator) -> Seconds:
        """So many times to the next failure of components that have long been in use.

        A law of renewal: a moment of time falls into a life with a chance proportional to its length (the
        length-biased law), and anywhere in it.
        """


@dataclass(frozen=True, slots=True)
class Exponential(FailureLaw):
    """A constant rate: a component that has worked for long fails no sooner than a new one."""

    kind: ClassVar[str] = "exponential"
    mean: float

    def lifetimes(self, count: int, generator: np.random.Generator) -> Seconds:
        """Draws of the law."""
        return generator.exponential(self.mean, count)

    def residual(self, count: int, generator: np.random.Generator) -> Seconds:
        """The same law: it has no memory."""
        return self.lifetimes(count, generator)


@dataclass(frozen=True, slots=True)
class Weibull(FailureLaw):
    """A rate that falls with age (shape below 1) or rises (above); mean = scale Gamma(1 + 1/shape)."""

    kind: ClassVar[str] = "weibull"
    mean: float
    shape: float

    @property
    def scale(self) -> float:
        """The scale that gives the mean."""
        return self.mean / math.gamma(1 + 1 / self.shape)

    def lifetimes(self, count: int, generator: np.random.Generator) -> Seconds:
        """Draws of the law."""
        return self.scale * generator.weibull(self.shape, count)

    def residual(self, count: int, generator: np.random.Generator) -> Seconds:
        """A uniform part of a length-biased life: (life / scale)^shape is Gamma(1 + 1/shape)."""
        lives = self.scale * generator.gamma(1 + 1 / self.shape, 1.0, count) ** (1 / self.shape)
        return generator.random(count) * lives


@dataclass(frozen=True, slots=True)
class Lognormal(FailureLaw):
    """Logarithms of times are normal with deviation ``sigma``; mean = exp(mu + sigma^2 / 2).

    With a mean of 0 all are 0.
    """

    kind: ClassVar[str] = "lognormal"
    mean: float
    sigma: float

    def lifetimes(self, count: int, generator: np.random.Generator) -> Seconds:
        """Draws of the law."""
        return generator.lognormal(self._mu, self.sigma, count)

    def residual(self, count: int, generator: np.random.Generator) -> Seconds:
        """A uniform part of a length-biased life, which is lognormal with mu + sigma^2."""
        lives = generator.lognormal(self._mu + self.sigma**2, self.sigma, count)
        return generator.random(count) * lives

    def survival(self, seconds: float) -> float:
        """The probability that a time is longer than this."""
        if not self.sigma or seconds <= 0:
            return float(self.mean > seconds)
        return math.erfc((math.log(seconds) - self._mu) / self.sigma / math.sqrt(2)) / 2

    @property
    def _mu(self) -> float:
        return math.log(self.mean) - self.sigma**2 / 2 if self.mean else -math.inf
