"""Overlap of communication and computation: collectives in chunks, interleaved micro-batches."""

from simcluster.plan.overlap.collective_matmul import chunk_collectives, describe_chunked_collectives
from simcluster.plan.overlap.micro_batch_interleave import (
    describe_interleaving,
    interleave_micro_batches,
    interleaved_samples,
)

__all__ = [
    "chunk_collectives",
    "describe_chunked_collectives",
    "describe_interleaving",
    "interleave_micro_batches",
    "interleaved_samples",
]
