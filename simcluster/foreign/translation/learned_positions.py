"""The table of learned positions, which Megatron and MindFormers describe in the same way."""

from __future__ import annotations

from simcluster.foreign.translation.facts import Facts


def state_positions(facts: Facts) -> None:
    """Rows of a learned position table, as many as the sequence has unless said; other kinds have none."""
    learned = facts.get("model.positions") == "learned"
    facts.use(
        "positions_limit", "model.max_positions", counts=learned, otherwise="there is no table of positions"
    )
    if learned and facts.get("training.seq_len"):
        facts.default("model.max_positions", facts.get("training.seq_len"), "the sequence length")
