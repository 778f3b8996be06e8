"""Overlap of communication and computation: collectives in chunks, interleaved micro-batches."""
