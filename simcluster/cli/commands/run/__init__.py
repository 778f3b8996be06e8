"""``simcluster run``: the command, and a run with its progress and files."""
