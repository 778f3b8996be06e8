"""The optimizer step: reduction, clipping and sharding of gradients (ZeRO, FSDP units), and parameter
updates.
"""
