"""One file, one collective algorithm."""
