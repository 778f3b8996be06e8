"""``simcluster calibrate``: the commands."""
