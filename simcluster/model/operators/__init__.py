"""Operator families: one file, one family. Kinds are found by listing this folder."""

from simcluster.model.operators.activation import (
    Activation,
    ClampedSwiglu,
    Gate,
    Geglu,
    Gelu,
    Relu,
    SoftCap,
    SoftCapGrad,
    SquaredRelu,
    Swiglu,
    Tanh,
)
from simcluster.model.operators.attention import Attention
from simcluster.model.operators.batch_norm import BatchNorm
from simcluster.model.operators.batch_norm_passes import RunningStatistics
from simcluster.model.operators.binary_cross_entropy import BinaryCrossEntropy
from simcluster.model.operators.cast import Cast
from simcluster.model.operators.chunks import JoinChunks, SplitChunks
from simcluster.model.operators.clip import ClipFactor, ScaleGradient, SumOfSquares, clip_factor
from simcluster.model.operators.concat import Concat, Split
from simcluster.model.operators.constant import Constant
from simcluster.model.operators.convolution import Conv2d
from simcluster.model.operators.cross_entropy import CrossEntropy
from simcluster.model.operators.detached_matmul import DetachedMatmul
from simcluster.model.operators.dropout import Dropout
from simcluster.model.operators.elementwise import Elementwise
from simcluster.model.operators.embedding import Embedding, PositionRows, Positions
from simcluster.model.operators.fp8 import E4M3, E5M2, Fp8Cast, Fp8Transpose
from simcluster.model.operators.gather import First, Gather
from simcluster.model.operators.indexer_loss import IndexerLoss
from simcluster.model.operators.join_heads import JoinHeads
from simcluster.model.operators.kv_cache import CachedAttention, CacheWrite, Greedy
from simcluster.model.operators.matmul import Matmul
from simcluster.model.operators.min_max import Extreme
from simcluster.model.operators.mxfp8 import Mxfp8Cast
from simcluster.model.operators.norm import LayerNorm, RmsNorm
from simcluster.model.operators.nvfp4 import E2M1, Nvfp4Cast
from simcluster.model.operators.one_hot import OneHot
from simcluster.model.operators.optimizer import Adam, AdamW, Momentum, OptimizerOperator, Sgd, Update
from simcluster.model.operators.optimizer_lamb import Lamb
from simcluster.model.operators.output_layer import OutputLayerLoss
from simcluster.model.operators.padding_mask import Mask
from simcluster.model.operators.pointwise import Accumulate, Add, Bias
from simcluster.model.operators.pooling import AveragePool2d, GlobalAveragePool, MaxPool2d
from simcluster.model.operators.prepend import Prepend
from simcluster.model.operators.reduction import Spread, SumTo
from simcluster.model.operators.relative_bias import RelativeBias
from simcluster.model.operators.reshape import Reshape
from simcluster.model.operators.rotary import Rotary
from simcluster.model.operators.router import ExpertSlots, Route, token_dims
from simcluster.model.operators.router_weighted import RouterWeighted, WeighedBias
from simcluster.model.operators.slice import Cut, Pad, Slice
from simcluster.model.operators.softmax import Softmax, SoftmaxOver
from simcluster.model.operators.sparse_attention import SparseAttention
from simcluster.model.operators.sparse_optimizers import Ftrl, LazyAdam
from simcluster.model.operators.sparse_updates import SparseUpdate
from simcluster.model.operators.token_dispatch import Combine, Dispatch, SlotFill, SlotWeights, slot_dims
from simcluster.model.operators.token_selection import SelectTokens
from simcluster.model.operators.top_k import TopK
from simcluster.model.operators.transpose import Transpose

__all__ = [
    "E2M1",
    "E4M3",
    "E5M2",
    "Accumulate",
    "Activation",
    "Adam",
    "AdamW",
    "Add",
    "Attention",
    "AveragePool2d",
    "BatchNorm",
    "Bias",
    "BinaryCrossEntropy",
    "CacheWrite",
    "CachedAttention",
    "Cast",
    "ClampedSwiglu",
    "ClipFactor",
    "Combine",
    "Concat",
    "Constant",
    "Conv2d",
    "CrossEntropy",
    "Cut",
    "DetachedMatmul",
    "Dispatch",
    "Dropout",
    "Elementwise",
    "Embedding",
    "ExpertSlots",
    "Extreme",
    "First",
    "Fp8Cast",
    "Fp8Transpose",
    "Ftrl",
    "Gate",
    "Gather",
    "Geglu",
    "Gelu",
    "GlobalAveragePool",
    "Greedy",
    "IndexerLoss",
    "JoinChunks",
    "JoinHeads",
    "Lamb",
    "LayerNorm",
    "LazyAdam",
    "Mask",
    "Matmul",
    "MaxPool2d",
    "Momentum",
    "Mxfp8Cast",
    "Nvfp4Cast",
    "OneHot",
    "OptimizerOperator",
    "OutputLayerLoss",
    "Pad",
    "PositionRows",
    "Positions",
    "Prepend",
    "RelativeBias",
    "Relu",
    "Reshape",
    "RmsNorm",
    "Rotary",
    "Route",
    "RouterWeighted",
    "RunningStatistics",
    "ScaleGradient",
    "SelectTokens",
    "Sgd",
    "Slice",
    "SlotFill",
    "SlotWeights",
    "SoftCap",
    "SoftCapGrad",
    "Softmax",
    "SoftmaxOver",
    "SparseAttention",
    "SparseUpdate",
    "Split",
    "SplitChunks",
    "Spread",
    "SquaredRelu",
    "SumOfSquares",
    "SumTo",
    "Swiglu",
    "Tanh",
    "TopK",
    "Transpose",
    "Update",
    "WeighedBias",
    "clip_factor",
    "slot_dims",
    "token_dims",
]
