"""``simcluster checkpoint``: costs of checkpoints, files of small runs, other plans, MindSpore's files."""
