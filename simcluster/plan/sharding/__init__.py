"""Sharding of the graph: layouts of all values, propagation to unconfigured operators, padding."""
