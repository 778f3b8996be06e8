"""``simcluster topology``: the command, its tables and its drawing."""
