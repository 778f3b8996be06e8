"""How a framework executes the plan: overlap and waiting, fused kernels, buckets of collectives."""
