"""The graph of a model: operators, values, blocks and their instances, before any parallelism."""
