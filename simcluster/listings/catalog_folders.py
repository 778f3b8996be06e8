"""The families of the catalog, known without importing the packages that they belong to."""

from __future__ import annotations

FOLDERS = {
    "devices": "simcluster.cluster.devices",
    "hosts": "simcluster.cluster.hosts",
    "models": "simcluster.model.catalog",
    "recipes": "simcluster.plan.recipes",
    "frameworks": "simcluster.plan.frameworks",
    "allocators": "simcluster.plan.allocators",
}
"""Family -> the folder of its files."""
