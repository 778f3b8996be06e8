"""The figures of a run: step time, throughput, MFU, FLOPs, traffic, host dispatch, and those of inference."""
