"""Network fabrics: one file, one way in which the cards of all hosts are joined."""

from simcluster.cluster.networks.switch import Switch

__all__ = ["Switch"]
