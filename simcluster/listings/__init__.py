"""Tables that commands and notebooks share: entries of the catalog, and a collective at several sizes.

print(simcluster.catalog("h100-sxm"))
print(simcluster.collective("all_reduce", "dgx-h100", hosts=16))
"""

from typing import TYPE_CHECKING

from simcluster.lazy_exports import exported_lazily

if TYPE_CHECKING:
    from simcluster.listings.catalog_entries import (
        FAMILIES,
        OWN_FILES,
        entry_data,
        entry_text,
        entry_yaml,
        family_of,
        listing_text,
    )
    from simcluster.listings.catalog_folders import FOLDERS
    from simcluster.listings.catalog_overview import titles, titles_text
    from simcluster.listings.collective_benchmark import (
        CollectiveBenchmark,
        bench_csv,
        bench_rows,
        bench_text,
        describe_group,
    )
    from simcluster.listings.from_python import CatalogListing, catalog, collective
    from simcluster.listings.rank_lists import rank_list
else:
    __getattr__ = exported_lazily(
        __name__,
        {
            "catalog_entries": "FAMILIES OWN_FILES entry_data entry_text entry_yaml family_of listing_text",
            "catalog_folders": "FOLDERS",
            "catalog_overview": "titles titles_text",
            "collective_benchmark": "CollectiveBenchmark bench_csv bench_rows bench_text describe_group",
            "from_python": "CatalogListing catalog collective",
            "rank_lists": "rank_list",
        },
    )

__all__ = [
    "FAMILIES",
    "FOLDERS",
    "OWN_FILES",
    "CatalogListing",
    "CollectiveBenchmark",
    "bench_csv",
    "bench_rows",
    "bench_text",
    "catalog",
    "collective",
    "describe_group",
    "entry_data",
    "entry_text",
    "entry_yaml",
    "family_of",
    "listing_text",
    "rank_list",
    "titles",
    "titles_text",
]
