"""What the words of other tools mean: facts, readers of flags, what changes the result and what does not."""

from simcluster.foreign.translation.adapters import (
    ADAPTER_MEANINGS,
    reads_adapter_kind,
    reads_adapter_targets,
    state_adapters,
)
from simcluster.foreign.translation.attention_windows import (
    reads_window,
    reads_windowed_layers,
    state_windows,
)
from simcluster.foreign.translation.facts import Alternatives, Fact, Facts, Meaning, without_effect
from simcluster.foreign.translation.flag_readers import (
    as_written,
    has_no_effect,
    not_expressible,
    read_boolean,
    read_integer,
    read_number,
    read_word,
    reads_betas,
    reads_clip,
    reads_embedding_dropout,
    reads_mtp_layers,
    reads_rotary_fraction,
    refuses_setting,
    selects,
    states_value,
    switch,
    unless_open,
)
from simcluster.foreign.translation.framework_profile import decided_by_profile, profile_says, state_profile
from simcluster.foreign.translation.ignored import ignored_settings
from simcluster.foreign.translation.learned_positions import state_positions
from simcluster.foreign.translation.mixture_of_experts import DEEPSEEK, MEGATRON, state_mixture
from simcluster.foreign.translation.unsupported_features import (
    ADAPTERS,
    EVALUATION,
    LINEAR_ATTENTION,
    RECURRENT,
    SPARSE_ATTENTION,
    STATE_SPACE,
    UnsupportedFeature,
)

__all__ = [
    "ADAPTERS",
    "ADAPTER_MEANINGS",
    "DEEPSEEK",
    "EVALUATION",
    "LINEAR_ATTENTION",
    "MEGATRON",
    "RECURRENT",
    "SPARSE_ATTENTION",
    "STATE_SPACE",
    "Alternatives",
    "Fact",
    "Facts",
    "Meaning",
    "UnsupportedFeature",
    "as_written",
    "decided_by_profile",
    "has_no_effect",
    "ignored_settings",
    "not_expressible",
    "profile_says",
    "read_boolean",
    "read_integer",
    "read_number",
    "read_word",
    "reads_adapter_kind",
    "reads_adapter_targets",
    "reads_betas",
    "reads_clip",
    "reads_embedding_dropout",
    "reads_mtp_layers",
    "reads_rotary_fraction",
    "reads_window",
    "reads_windowed_layers",
    "refuses_setting",
    "selects",
    "state_adapters",
    "state_mixture",
    "state_positions",
    "state_profile",
    "state_windows",
    "states_value",
    "switch",
    "unless_open",
    "without_effect",
]
