"""The MSJob of ms-operator: how many pods of each role; where they are is up to Kubernetes."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from simcluster.cluster.allocation.allocated_site import AllocatedSite
from simcluster.cluster.allocation.allocation import Allocation, MapBy
from simcluster.cluster.allocation.allocation_format import AllocationFormat
from simcluster.cluster.allocation.msjob_spec import MSJobSpec
from simcluster.document import Document, validate
from simcluster.errors import PlanError, ScenarioError


class MSJob(AllocationFormat):
    """A rank for every Worker, of one device; pods fill hosts one by one, or are spread over them.

    Where there are parameter servers, they and the scheduler are ranks behind the workers, as in the plan.
    In groups of hosts of several kinds all devices have ranks, group by group.
    """

    kind: ClassVar[str] = "msjob"
    title: ClassVar[str] = "MSJob"
    deals: ClassVar[bool] = True

    def read(self, text: str, name: str, site: AllocatedSite, by: MapBy) -> Allocation:
        """See ``AllocationFormat.read``; on as many hosts as the cluster has, or else as workers fill."""
        document = Document.parse(text, name)
        job = validate(document, MSJobSpec)
        if problems := [*job.problems(site.kind, site.device)]:
            raise document.located(ScenarioError(*problems))
        ranks, size = job.num_ranks, site.devices_per_host
        sizes = site.sizes or (size,) * (site.num_hosts or -(-ranks // size))
        if ranks > sum(sizes) or (site.sizes and ranks < sum(sizes)):
            pods = f"{job.count('Worker')} Workers"
            if job.count("PS"):
                pods += f", {job.count('PS')} PS and a Scheduler"
            owner = "the groups" if site.sizes else f"{len(sizes)} x {site.host}"
            raise document.located(
                ScenarioError(
                    f"{pods} of one device each, but {owner} have {sum(sizes)}",
                    path="spec.msReplicaSpecs.Worker.replicas",
                )
            )
        dealt = Allocation.dealt([f"node{at}" for at in range(len(sizes))], sizes, ranks, by)
        unread = job.unread()
        notes = (f"nothing depends on {', '.join(unread)} of the MSJob",) if unread else ()
        return replace(dealt, notes=notes, job=job)

    def write(self, allocation: Allocation, site: AllocatedSite, title: str) -> str:
        """See ``AllocationFormat.write``; there is a Scheduler if there are several processes."""
        if allocation.dealt_by is None:
            raise PlanError(
                "an MSJob cannot say which rank has which device: Kubernetes places pods",
                path="cluster",
                hint="write a rank table, or give hosts their ranks in order",
            )
        servers = site.num_servers
        parts = {"Worker": allocation.num_ranks - (servers + 1 if servers else 0)}
        if servers:
            parts = {"PS": servers, **parts}
        if sum(parts.values()) > 1:
            parts = {"Scheduler": 1, **parts}
        resource = {"gpu": "nvidia.com/gpu", "ascend": "huawei.com/Ascend910", "cpu": ""}[site.kind]
        lines = [
            "apiVersion: mindspore.gitee.com/v1",
            "kind: MSJob",
            f"metadata: {{name: {kubernetes_name(title)}}}",
            "spec:",
            "  runPolicy: {cleanPodPolicy: None}",
            "  successPolicy: AllWorkers",
            "  msReplicaSpecs:",
        ]
        for role, count in parts.items():
            devices = f"{{limits: {{{resource}: 1}}}}" if role == "Worker" and resource else "{}"
            lines += [
                f"    {role}:",
                f"      replicas: {count}",
                "      restartPolicy: Never",
                "      template:",
                "        spec:",
                "          containers:",
                "            - name: mindspore",
                "              image: mindspore",
                "              command: [python, train.py]",
                f"              resources: {devices}",
            ]
        return "\n".join([*lines, ""])


def kubernetes_name(title: str) -> str:
    """A title as a name that Kubernetes accepts: small letters, digits and dashes."""
    letters = "".join(letter if letter.isascii() and letter.isalnum() else "-" for letter in title.lower())
    return "-".join(part for part in letters.split("-") if part)[:63].rstrip("-") or "job"
