"""What families of models are built of: decoder blocks, mixtures of experts, latent attention, generation."""

from simcluster.model.layers.decoder_block import DecoderBlock
from simcluster.model.layers.decoder_dimensions import Dimensions
from simcluster.model.layers.generation import Generation, LayerCaches
from simcluster.model.layers.latent_attention import LatentAttention
from simcluster.model.layers.lightning_indexer import LightningIndexer
from simcluster.model.layers.mixture_of_experts import Experts
from simcluster.model.layers.transformer_layers import (
    ATTENTION_CORES,
    GATED,
    HIDDEN,
    K_WEIGHT,
    LOGITS,
    Q_WEIGHT,
    Layers,
    linear,
)

__all__ = [
    "ATTENTION_CORES",
    "GATED",
    "HIDDEN",
    "K_WEIGHT",
    "LOGITS",
    "Q_WEIGHT",
    "DecoderBlock",
    "Dimensions",
    "Experts",
    "Generation",
    "LatentAttention",
    "LayerCaches",
    "Layers",
    "LightningIndexer",
    "linear",
]
