"""``simcluster schedule``: the command, and the drawing of a schedule."""
