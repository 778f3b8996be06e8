"""What a step puts on the network: bytes between ranks, bytes on every link, the topology that shows them."""

from typing import TYPE_CHECKING

from simcluster.lazy_exports import exported_lazily

if TYPE_CHECKING:
    from simcluster.simulation.traffic.link_traffic import bytes_on_links
    from simcluster.simulation.traffic.network_document import traffic_document
    from simcluster.simulation.traffic.rank_traffic import bytes_between_ranks
    from simcluster.simulation.traffic.traffic_limits import may_have_traffic
else:
    __getattr__ = exported_lazily(
        __name__,
        {
            "link_traffic": "bytes_on_links",
            "rank_traffic": "bytes_between_ranks",
            "network_document": "traffic_document",
            "traffic_limits": "may_have_traffic",
        },
    )

__all__ = [
    "bytes_between_ranks",
    "bytes_on_links",
    "may_have_traffic",
    "traffic_document",
]
