"""Families of models, one file each."""

from simcluster.model.families.custom_graph import (
    OWN_KEYS,
    Entry,
    GraphWriter,
    WrittenGraph,
    check_scalar_loss,
    operator_kinds,
    written_operator,
)
from simcluster.model.families.encoder import Encoder
from simcluster.model.families.encoder_decoder import EncoderDecoder
from simcluster.model.families.residual_network import ResidualNetwork
from simcluster.model.families.single_block import SingleBlockModel
from simcluster.model.families.transformer import Transformer
from simcluster.model.families.vision_transformer import VisionTransformer
from simcluster.model.families.wide_deep import WideDeep

__all__ = [
    "OWN_KEYS",
    "Encoder",
    "EncoderDecoder",
    "Entry",
    "GraphWriter",
    "ResidualNetwork",
    "SingleBlockModel",
    "Transformer",
    "VisionTransformer",
    "WideDeep",
    "WrittenGraph",
    "check_scalar_loss",
    "operator_kinds",
    "written_operator",
]
