"""``simcluster guide``: the topics of the guide, drawn for a terminal."""
