"""The batch: how many micro-batches every rank trains, and how its part of the inputs gets to it."""
