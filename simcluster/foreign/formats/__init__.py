"""The formats of other tools that can be read: one file, one format, found by folder listing."""
