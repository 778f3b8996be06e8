"""What the hosts can do for which a file is translated: whether updates can run on their processors."""

from __future__ import annotations

from simcluster.cluster import Cluster, ClusterSpec
from simcluster.document import validate_data
from simcluster.errors import ScenarioError
from simcluster.foreign.importer_interface import UserAdditions
from simcluster.foreign.reading import Flag
from simcluster.foreign.translation import Facts
from simcluster.model import update_kinds
from simcluster.work import Kernel


def known_host(given: UserAdditions) -> Cluster | None:
    """One host of the cluster given with the file; None if none is given or known (refused later)."""
    if given.cluster is None:
        return None
    try:
        return validate_data({"use": given.cluster, "hosts": 1}, ClusterSpec).build()
    except ScenarioError:
        return None


def state_host_updates(facts: Facts, flag: Flag, cluster: Cluster | None) -> bool:
    """States that updates run on the processors of hosts, if they can; otherwise lists why they do not."""
    rule = facts.get("training.optimizer.kind")
    if rule is not None and not update_kinds()[rule].on_hosts:
        facts.unsupported(flag, "updates run on the device, as no others than Adam's are known on hosts")
        return False
    if cluster and not all(host.processing.knows(Kernel.OPTIMIZER) for host in cluster.kinds):
        facts.unsupported(flag, "updates run on the device: no figures are known for the host's processors")
        return False
    facts.say("parallel.host", ["*.update"], flag)
    return True
