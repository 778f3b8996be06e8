"""Overlap of communication and computation: collectives in chunks, interleaved micro-batches."""

from simcluster.plan.overlap.collective_matmul import chunks_told, in_chunks
from simcluster.plan.overlap.micro_batch_interleave import abreast, copies_told, share

__all__ = ["abreast", "chunks_told", "copies_told", "in_chunks", "share"]
