"""``simcluster layouts``: the command, and strategies as YAML."""
