"""One file, one format of check reports."""
