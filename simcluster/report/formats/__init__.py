"""The files that ``run --out`` writes of a run; one file, one format."""
