"""What low-rank adapters look like, and the names of the matmuls that have one."""

from __future__ import annotations

from collections.abc import Mapping

from simcluster.deferred_dataclass import dataclass
from simcluster.document import matches

_LAYERS = "{*.,}layers.*."

TARGET_NAMES: Mapping[str, tuple[str, ...]] = {
    "linear_qkv": (f"{_LAYERS}attention.qkv",),
    "linear_proj": (f"{_LAYERS}attention.out",),
    "linear_fc1": (f"{_LAYERS}mlp.{{,experts.,shared.}}up",),
    "linear_fc2": (f"{_LAYERS}mlp.{{,experts.,shared.}}down",),
    "linear_q_down_proj": (f"{_LAYERS}attention.latent.q",),
    "linear_q_up_proj": (f"{_LAYERS}attention.query",),
    "linear_kv_down_proj": (f"{_LAYERS}attention.latent.kv",),
    "linear_kv_up_proj": (f"{_LAYERS}attention.kv",),
    "q_proj": (f"{_LAYERS}attention.qkv.q",),
    "k_proj": (f"{_LAYERS}attention.qkv.k",),
    "v_proj": (f"{_LAYERS}attention.qkv.v",),
    "o_proj": (f"{_LAYERS}attention.out",),
    "gate_proj": (f"{_LAYERS}mlp.{{,shared.}}up.gate",),
    "up_proj": (f"{_LAYERS}mlp.{{,shared.}}up.up",),
    "down_proj": (f"{_LAYERS}mlp.{{,experts.,shared.}}down",),
    "all-linear": (f"{_LAYERS}{{attention,cross}}.*", f"{_LAYERS}mlp.{{,experts.,shared.}}{{up,down}}"),
}
"""What Megatron-Bridge (linear_qkv, ...) and PEFT (q_proj, ..., all-linear) call targets, as patterns of
operators and of weights here."""


@dataclass(frozen=True, slots=True)
class LowRankAdapters:
    """What adapters look like, and which matmuls have one."""

    rank: int
    """Columns of A, and rows of B."""
    alpha: float
    """What products are multiplied by, divided by the rank."""
    dropout: float
    """Rate of dropout of what A reads."""
    targets: tuple[str, ...]
    """Names of ``TARGET_NAMES``, or patterns of operators or weights: ``attention.qkv``,
    ``layers.3.mlp.down``, ``attention.qkv.q``."""


def is_target(target: str, name: str) -> bool:
    """Whether a target names the operator, or weight, of this full name."""
    return any(matches(pattern, name) for pattern in TARGET_NAMES.get(target, (target, f"*.{target}")))
