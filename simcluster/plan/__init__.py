"""Passes that turn a graph into a sharded plan."""
