"""Values that several operators carry, with their arithmetic: attention scores, batch statistics, windows."""

from simcluster.model.attributes.attention_scores import LABELS, QUERY, STATISTICS, Scores, attention_work
from simcluster.model.attributes.batch_norm_statistics import CHANNELS, StatisticsGroups
from simcluster.model.attributes.sliding_windows import PICTURE, Pair, Windows

__all__ = [
    "CHANNELS",
    "LABELS",
    "PICTURE",
    "QUERY",
    "STATISTICS",
    "Pair",
    "Scores",
    "StatisticsGroups",
    "Windows",
    "attention_work",
]
