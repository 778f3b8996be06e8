"""A Program with the sizes that unequal routing to experts gives: dynamic shapes per rank."""

from simcluster.program.routing.moe_routing import apply_routing, routed_slots, serves_all_tokens

__all__ = ["apply_routing", "routed_slots", "serves_all_tokens"]
