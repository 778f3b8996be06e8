"""What passes of a generation keep for each other, attention over it, and the choice of a token."""

from __future__ import annotations

from simcluster.model.attributes.attention_scores import Scores
from simcluster.model.operators.kv_cache import CachedAttention, CacheWrite, Greedy
from tests.contracts.operator_case import Case, normal

_KEY = ("batch", "seq", "heads", "head_dim")
_CACHE = (2, 4, 8, 4, 4)
_JOINED = "what is kept is whole: nothing partial passes through a cache"
_FAR = "a later query sees more, so that slices of them have unequal work"


def _attention(position: int, *, queries: int = 1, **rule: object) -> Case:
    told = ", ".join(f"{name}={value}" for name, value in rule.items())
    return Case(
        f"cached_attention of {queries} from {position} on {told}".strip(),
        CachedAttention(position, Scores(**rule), 0.5),
        normal((4, queries, 4, 4, 4), _CACHE, _CACHE),
        nonlinear={frozenset({2}): _JOINED},
        reads_part=frozenset({1, 2}),
        read_again=frozenset({1, 2}),
        odd=frozenset({"seq"}) if queries == 1 else frozenset(),
    )


CASES = (
    Case(
        "cache_write",
        CacheWrite((_KEY, _KEY), 0),
        normal(_CACHE, _CACHE, (4, 4, 4, 4), (4, 4, 4, 4)),
        nonlinear={frozenset({0, 1, 2, 3}): _JOINED},
        reads_part=frozenset({0, 1}),
        writes_part=frozenset({0, 1}),
    ),
    Case(
        "cache_write of one token behind five",
        CacheWrite((_KEY,), 5),
        normal(_CACHE, (4, 1, 4, 4)),
        nonlinear={frozenset({0, 1}): _JOINED},
        reads_part=frozenset({0}),
        writes_part=frozenset({0}),
        odd=frozenset({"seq"}),
    ),
    _attention(5),
    _attention(7, window=3),
    _attention(4, queries=4, alibi=(4, 4)),
    Case("greedy", Greedy(10), normal((4, 4, 12))),
)
