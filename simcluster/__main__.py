"""``python -m simcluster``: the command line, where its script is not on the path."""

from simcluster.cli import main

main()
