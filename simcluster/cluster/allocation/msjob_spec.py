"""What an MSJob may say: the custom resource of ms-operator, MindSpore's operator for Kubernetes.

Source: ms-operator ``pkg/apis/v1``, ``controllers`` and ``config/samples``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal

from pydantic import Field, model_validator

from simcluster.cluster.allocation.rank_table_spec import LAST_PORT, MOST_DIGITS
from simcluster.document import Name, NonNegativeInt, PositiveInt, Refused, Section
from simcluster.errors import Problem

ROLES = {"Scheduler": "MS_SCHED", "PS": "MS_PSERVER", "Worker": "MS_WORKER"}
"""Roles of an MSJob, in the order in which the operator makes their pods, and MS_ROLE of each."""
CONTAINER, PORT_NAME, MSJOB_PORT = "mindspore", "msjob-port", 2222
"""What the container must be called, and the port of the scheduler: its name and its default."""
DEVICE_RESOURCES = ("nvidia.com/gpu", "amd.com/gpu", "huawei.com/")
"""How resources begin that are devices."""
_READ = ("name", "image", "command", "args", "env", "ports", "resources", "imagePullPolicy")
"""Keys of a container that something is made of."""


class SchedulingPolicySpec(Section):
    """How a batch scheduler such as Volcano places the pods: with it all at once, or none."""

    minAvailable: PositiveInt | None = None  # noqa: N815 - keys as Kubernetes has them
    """Pods that must fit at the same time; all, if nothing is written."""

    queue: Name | None = None
    """The queue it waits in."""

    priorityClass: Name | None = None  # noqa: N815
    """Who goes first."""

    minResources: dict[Name, Any] | None = None  # noqa: N815
    """What must be free."""


class RunPolicySpec(Section):
    """What is done with pods when the job is over, and how long it may take."""

    cleanPodPolicy: Literal["None", "Running", "All"] = "Running"  # noqa: N815
    """Pods that are removed when it is over."""

    ttlSecondsAfterFinished: NonNegativeInt | None = None  # noqa: N815
    """When the job itself is removed."""

    activeDeadlineSeconds: PositiveInt | None = None  # noqa: N815
    """How long it may be active."""

    backoffLimit: NonNegativeInt | None = None  # noqa: N815
    """How often it is tried again."""

    schedulingPolicy: SchedulingPolicySpec | None = None  # noqa: N815
    """How pods are placed."""


class ReplicaSpec(Section):
    """The pods of a role."""

    replicas: PositiveInt = 1
    """How many."""

    restartPolicy: Literal["Always", "OnFailure", "Never", "ExitCode"] = "Never"  # noqa: N815
    """When a container is started again."""

    template: dict[Name, Any]
    """The pod, as Kubernetes has it; its container is called ``mindspore``."""

    @model_validator(mode="after")
    def _has_its_container(self) -> ReplicaSpec:
        pod = self.template.get("spec")
        containers = pod.get("containers") if isinstance(pod, Mapping) else None
        if not isinstance(containers, (list, tuple)) or not containers:
            raise Refused("a pod has containers: template.spec.containers", path="template")
        names = [one.get("name") if isinstance(one, Mapping) else None for one in containers]
        if names.count(CONTAINER) != 1:
            shown = ", ".join(str(name) for name in names)
            raise Refused(
                f"one container must be called '{CONTAINER}'; there is: {shown}",
                path="template.spec.containers",
            )
        problems = [*self._wrong_parts(f"template.spec.containers.{names.index(CONTAINER)}")]
        if problems:
            raise Refused(*problems)
        return self

    def _wrong_parts(self, path: str) -> Iterator[Problem]:
        """What of the container has another form than Kubernetes asks for."""
        for key in ("command", "args"):
            if not isinstance(self.container.get(key) or [], (list, tuple)):
                yield Problem(f"'{key}' is a list of words: [python, train.py]", f"{path}.{key}")
        ports = self.container.get("ports") or []
        if not isinstance(ports, (list, tuple)) or not all(isinstance(port, Mapping) for port in ports):
            yield Problem("'ports' is a list: [{name: msjob-port, containerPort: 2222}]", f"{path}.ports")
        elif not 1 <= self.port <= LAST_PORT:
            yield Problem(f"the container's port is a number up to {LAST_PORT}", f"{path}.ports")
        resources = self.container.get("resources") or {}
        if not isinstance(resources, Mapping) or not isinstance(resources.get("limits") or {}, Mapping):
            yield Problem("'resources' has limits: {limits: {nvidia.com/gpu: 1}}", f"{path}.resources")
            return
        for resource, count in self._limits():
            if not (str(count).isascii() and str(count).isdecimal() and len(str(count)) <= MOST_DIGITS):
                yield Problem(f"'{count}' is not a number of devices", f"{path}.resources.limits.{resource}")

    @property
    def container(self) -> Mapping[str, Any]:
        """The container that runs the process."""
        containers: list[Mapping[str, Any]] = self.template["spec"]["containers"]
        return next(one for one in containers if one["name"] == CONTAINER)

    @property
    def devices(self) -> dict[str, int]:
        """Devices that a pod gets, by the name of the resource."""
        return {resource: int(count) for resource, count in self._limits()}

    @property
    def command(self) -> tuple[str, ...]:
        """What the container runs, with its arguments."""
        parts = [*(self.container.get("command") or ()), *(self.container.get("args") or ())]
        return tuple(str(part) for part in parts)

    @property
    def port(self) -> int:
        """The port of the scheduler."""
        for port in self.container.get("ports") or ():
            if isinstance(port, Mapping) and port.get("name") == PORT_NAME:
                number = port.get("containerPort", MSJOB_PORT)
                return number if isinstance(number, int) else 0
        return MSJOB_PORT

    def _limits(self) -> Iterator[tuple[str, Any]]:
        limits = (self.container.get("resources") or {}).get("limits") or {}
        yield from (
            (str(name), count) for name, count in limits.items() if str(name).startswith(DEVICE_RESOURCES)
        )

    def unread(self, path: str) -> Iterator[str]:
        """Keys of the pod that nothing is made of, by key path."""
        for key, value in self.template.items():
            if key != "spec":
                yield f"{path}.template.{key}"
                continue
            for inner in value:
                if inner != "containers":
                    yield f"{path}.template.spec.{inner}"
        yield from (
            f"{path}.template.spec.containers.{CONTAINER}.{key}" for key in self.container if key not in _READ
        )


class JobPartsSpec(Section):
    """What is run."""

    runPolicy: RunPolicySpec = RunPolicySpec.model_construct()  # noqa: N815
    """When it is over."""

    successPolicy: Literal["", "AllWorkers"] = ""  # noqa: N815
    """Who must be done: the first worker, or all of them."""

    msReplicaSpecs: dict[Name, ReplicaSpec]  # noqa: N815
    """The pods by role: Scheduler, PS, Worker."""

    @model_validator(mode="before")
    @classmethod
    def _with_roles(cls, written: Any) -> Any:
        """Roles in any case, as the operator accepts them."""
        roles = written.get("msReplicaSpecs") if isinstance(written, Mapping) else None
        if not isinstance(roles, Mapping):
            return written
        usual = {role.lower(): role for role in ROLES}
        named: dict[str, Any] = {}
        for name, spec in roles.items():
            role = usual.get(str(name).lower())
            path = f"msReplicaSpecs.{name}"
            if role is None:
                raise Refused(f"there is no role '{name}'; roles are {', '.join(ROLES)}", path=path)
            if role in named:
                raise Refused(f"'{name}' is {role}, which is there already", path=path)
            named[role] = spec
        return {**written, "msReplicaSpecs": named}

    @model_validator(mode="after")
    def _is_whole(self) -> JobPartsSpec:
        counts = {role: spec.replicas for role, spec in self.msReplicaSpecs.items()}
        if "Worker" not in counts:
            raise Refused("'Worker' is missing: nothing would be trained", path="msReplicaSpecs")
        if counts.get("Scheduler", 1) > 1:
            message = f"{counts['Scheduler']} schedulers; a job has at most one"
            raise Refused(message, path="msReplicaSpecs.Scheduler.replicas")
        if sum(counts.values()) != 1 and "Scheduler" not in counts:
            # One Worker and PS, or several Workers: the operator takes it for distributed.
            raise Refused(
                "'Scheduler' is missing: a job of several replicas is distributed", path="msReplicaSpecs"
            )
        return self


class MSJobSpec(Section):
    """A whole MSJob."""

    apiVersion: Literal["mindspore.gitee.com/v1"]  # noqa: N815
    """The version of the custom resource."""

    kind: Literal["MSJob"]
    """What it is."""

    metadata: dict[Name, Any]
    """Its name, and labels."""

    spec: JobPartsSpec
    """What is run."""

    status: dict[Name, Any] | None = Field(default=None, exclude=True)
    """What the operator writes; nothing is made of it."""

    @model_validator(mode="after")
    def _is_called_something(self) -> MSJobSpec:
        if not isinstance(self.metadata.get("name"), str) or not self.metadata["name"]:
            raise Refused("'name' is missing; write name: my-job", path="metadata")
        return self

    @property
    def roles(self) -> dict[str, ReplicaSpec]:
        """The pods of its roles, in the order in which the operator makes them."""
        specs = self.spec.msReplicaSpecs
        return {role: specs[role] for role in ROLES if role in specs}

    def count(self, role: str) -> int:
        """How many pods a role has."""
        roles = self.spec.msReplicaSpecs
        return roles[role].replicas if role in roles else 0

    @property
    def num_ranks(self) -> int:
        """Workers; where there are parameter servers these and the scheduler, too."""
        servers = self.count("PS")
        return self.count("Worker") + (servers + self.count("Scheduler") if servers else 0)

    @property
    def is_distributed(self) -> bool:
        """Whether the operator tells processes of each other: there are several of them."""
        return sum(spec.replicas for spec in self.roles.values()) != 1

    @property
    def gang(self) -> bool:
        """Whether a batch scheduler places all pods at once, or none."""
        return self.spec.runPolicy.schedulingPolicy is not None

    def unread(self) -> tuple[str, ...]:
        """Keys that nothing is made of, by key path."""
        unread = [f"metadata.{key}" for key in self.metadata if key not in ("name", "namespace")]
        for role, spec in self.roles.items():
            unread += spec.unread(f"spec.msReplicaSpecs.{role}")
        policy = self.spec.runPolicy
        written = policy.model_fields_set - {"schedulingPolicy", "activeDeadlineSeconds"}
        unread += [f"spec.runPolicy.{key}" for key in sorted(written)]
        return tuple(unread)

    def problems(self, kind: str, device: str) -> Iterator[Problem]:
        """What does not go with devices of a kind."""
        prefixes = {"gpu": DEVICE_RESOURCES[:2], "ascend": DEVICE_RESOURCES[2:], "cpu": ()}[kind]
        worker = self.roles["Worker"]
        at = next(
            at for at, one in enumerate(worker.template["spec"]["containers"]) if one["name"] == CONTAINER
        )
        path = f"spec.msReplicaSpecs.Worker.template.spec.containers.{at}.resources"
        for resource, count in worker.devices.items():
            if not resource.startswith(tuple(prefixes)):
                yield Problem(f"'{resource}' is no {device}, which cluster.use names", f"{path}.limits")
            elif count != 1:
                yield Problem(
                    f"{count} devices for the one process of a Worker",
                    f"{path}.limits",
                    f"write {resource}: 1, and a replica for every device",
                )
        if kind != "cpu" and not worker.devices:
            wanted = "nvidia.com/gpu: 1" if kind == "gpu" else "huawei.com/Ascend910: 1"
            yield Problem(f"a Worker gets no device; write limits: {{{wanted}}}", path)
