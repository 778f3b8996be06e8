"""Plans that the search finds beside those that others published: ``python -m tests.published_plans``."""
