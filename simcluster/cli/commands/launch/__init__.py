"""``simcluster launch``: the command, and what it launches."""
