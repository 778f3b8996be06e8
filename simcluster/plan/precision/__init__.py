"""Mixed precision: number formats, casts of weights, fp8 matmuls."""
