"""A family of models in the ``model:`` section: the base of all, keys that several share, and checks."""

from simcluster.model.family_spec.dimension_checks import refuse_clashes, refuse_missing, usual_head_dim
from simcluster.model.family_spec.family_spec import (
    AttentionKeys,
    FamilySpec,
    LayerKeys,
    PictureKeys,
    PositionKeys,
    Probability,
    TextKeys,
    VocabularyKeys,
)
from simcluster.model.family_spec.layer_specs import ExpertsSpec, LatentSpec, experts_of, latent_of

__all__ = [
    "AttentionKeys",
    "ExpertsSpec",
    "FamilySpec",
    "LatentSpec",
    "LayerKeys",
    "PictureKeys",
    "PositionKeys",
    "Probability",
    "TextKeys",
    "VocabularyKeys",
    "experts_of",
    "latent_of",
    "refuse_clashes",
    "refuse_missing",
    "usual_head_dim",
]
