"""Sharding strategies: what the axes of the mesh are for, and how each operator is split over them."""
