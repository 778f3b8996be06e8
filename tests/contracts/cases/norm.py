"""Norms."""

from __future__ import annotations

from simcluster.model.operators.norm import LayerNorm, LayerNormGrad, RmsNorm, RmsNormGrad
from tests.contracts.operator_case import WHOLE, Case, Draw, normal

_HIDDEN = ("batch", "seq", "hidden")
_QUERY = ("batch", "seq", "heads", "group", "head_dim")


def _norm_grad(operator: RmsNorm | LayerNorm, num_weights: int) -> Draw:
    def draw(rng):
        x, *weights = normal((4, 8, 6), *((6,),) * num_weights)(rng)
        statistics = operator.evaluate((x, *weights), WHOLE)[1:]
        return (x, *statistics, weights[0], rng.standard_normal(x.shape))

    return draw


CASES = (
    Case("rms_norm", RmsNorm(_HIDDEN), normal((4, 8, 6), (6,)), (0,)),
    Case("rms_norm_grad", RmsNormGrad(_HIDDEN), _norm_grad(RmsNorm(_HIDDEN), 1)),
    Case("layer_norm", LayerNorm(_HIDDEN), normal((4, 8, 6), (6,), (6,)), (0,)),
    Case("layer_norm_grad", LayerNormGrad(_HIDDEN), _norm_grad(LayerNorm(_HIDDEN), 2)),
    Case("layer_norm without bias", LayerNorm(_HIDDEN, bias=False), normal((4, 8, 6), (6,)), (0,)),
    Case(
        "layer_norm_grad without bias",
        LayerNormGrad(_HIDDEN, bias=False),
        _norm_grad(LayerNorm(_HIDDEN, bias=False), 1),
    ),
    Case("rms_norm of heads", RmsNorm(_QUERY), normal((4, 4, 4, 4, 6), (6,)), (0,)),
)
