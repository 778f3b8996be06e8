"""``python -m simcluster.cli``: the command where it is not on the path."""

from simcluster.cli import main

main()
