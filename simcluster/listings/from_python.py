"""``simcluster.catalog`` and ``simcluster.collective``: what the commands of these names show."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import RenderableType

from simcluster.collectives import AUTO
from simcluster.deferred_dataclass import dataclass
from simcluster.draw import render_text, renderables_html
from simcluster.errors import ScenarioError, nearest
from simcluster.listings.catalog_entries import FAMILIES, entry_data, entry_parts, family_of, listing_parts
from simcluster.listings.catalog_folders import FOLDERS
from simcluster.listings.catalog_overview import titles, titles_parts
from simcluster.listings.collective_benchmark import CollectiveBenchmark


@dataclass(frozen=True, repr=False)
class CatalogListing:
    """A part of the catalog: ``print`` shows it, ``data`` has it as plain data in SI units."""

    data: dict[str, Any]
    """Of all families, or of one: family -> name -> title; of an entry: its figures."""

    parts: tuple[RenderableType, ...]
    """Its lines and tables."""

    @property
    def text(self) -> str:
        """The listing to read."""
        return render_text(*self.parts)

    def __repr__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        return renderables_html(*self.parts)


def catalog(family_or_name: str = "", name: str = "") -> CatalogListing:
    """The catalog: all titles, those of a family (``"models"``), or one entry (``"h100-sxm"``) with sources.

    An entry has every figure, where it comes from, and whether it is measured, stated by the vendor or
    assumed. ``catalog("frameworks", "fsdp")`` says which, where two families have one name. Raises
    ScenarioError, with the nearest name, for what is not there.
    """
    if not family_or_name:
        return CatalogListing(titles(list(FOLDERS)), tuple(titles_parts()))
    if name:
        if family_or_name not in FAMILIES:
            hint = nearest(family_or_name, FAMILIES)
            raise ScenarioError(f"the catalog has no family '{family_or_name}'", hint=hint)
        family = family_or_name
    elif family_or_name in FAMILIES:
        return CatalogListing(titles([family_or_name]), tuple(listing_parts(family_or_name)))
    else:
        family, name = family_of(family_or_name), family_or_name
    return CatalogListing(entry_data(family, name), tuple(entry_parts(family, name)))


def collective(
    operation: str,
    cluster: str,
    hosts: int = 1,
    *,
    sizes: str | Sequence[int] = "1KiB..8GiB",
    ranks: Sequence[int] | str | None = None,
    algorithm: str = AUTO,
    protocol: str = AUTO,
    parts: str | None = None,
    seed: int | None = None,
) -> CollectiveBenchmark:
    """The time of a collective at several sizes, as nccl-tests prints it; nothing else uses the cluster.

    ``cluster`` is a host of the catalog, ``hosts`` how many of them. ``sizes`` are doubled (``1KiB..8GiB``),
    listed (``1KiB,3MiB``), or bytes; ``ranks`` those that take part, by default all. ``parts`` are the
    unequal parts of ``all_to_all_v``: a law such as ``zipf:1.2``, drawn with ``seed``, or a file. ``print``
    shows the table, ``frame`` gives its rows. Raises ScenarioError and PlanError as the command does.
    """
    written = sizes if isinstance(sizes, str) else ",".join(f"{size}B" for size in sizes)
    chosen = ranks if ranks is None or isinstance(ranks, str) else ",".join(map(str, ranks))
    return CollectiveBenchmark.of(
        operation, cluster, hosts, written, algorithm, chosen, protocol, parts, seed
    )
