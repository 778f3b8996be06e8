"""``simcluster accuracy``: the command, and which published rows it shows."""
