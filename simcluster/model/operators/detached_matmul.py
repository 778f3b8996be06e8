"""A matrix product whose weights learn, and whose input is a constant of the gradient."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from simcluster.deferred_dataclass import dataclass
from simcluster.layout import Dims
from simcluster.model.graph import Array, Gradient, Operator, Region, Tape, TensorType
from simcluster.model.operators.matmul import Matmul
from simcluster.work import GemmLayout, Work


@dataclass(frozen=True, slots=True)
class DetachedMatmul(Operator):
    """``product``, a ``Matmul`` with one weight, without a gradient of x (PyTorch's ``x.detach() @ w``)."""

    product: Matmul

    kind: ClassVar[str] = "detached_matmul"
    family: ClassVar[str] = "matmul"
    anywhere: ClassVar[bool] = True

    @property
    def detached_inputs(self) -> frozenset[int]:
        """X."""
        return frozenset({0})

    def infer(self, inputs: Sequence[TensorType]) -> tuple[TensorType, ...]:
        """As of the product."""
        return self.product.infer(inputs)

    def dims(self) -> Dims:
        """As of the product."""
        return self.product.dims()

    def work(
        self, inputs: Sequence[TensorType], outputs: Sequence[TensorType], *, accumulate: bool = False
    ) -> tuple[Work, ...]:
        """As of the product."""
        return self.product.work(inputs, outputs, accumulate=accumulate)

    def input_gradients(
        self, tape: Tape, inputs: Sequence[str], outputs: Sequence[str], grad: Gradient
    ) -> tuple[Gradient | None, ...]:
        """That of the weight."""
        x, weight = inputs
        if not tape.needs_gradient(weight):
            return (None, None)
        product = self.product
        layout = GemmLayout.WEIGHT_GRADIENT
        back = Matmul(product.left, product.results, product.rights, layout=layout)
        return (None, *tape.emit("wgrad", back, [x, grad]))

    def evaluate(self, inputs: Sequence[Array], region: Region) -> tuple[Array, ...]:
        """The product."""
        return self.product.evaluate(inputs, region)
