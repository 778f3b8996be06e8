"""``job.failures``: what breaks, and when; listed, or drawn from the rates of a preset."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.resources.abc import Traversable
from typing import Annotated, ClassVar, Literal

from pydantic import Field, model_validator

from simcluster.document import (
    CatalogSection,
    Duration,
    Figure,
    Name,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    Refused,
    Section,
)
from simcluster.errors import PlanError
from simcluster.job.failures.failure_cause import FailureCause
from simcluster.job.failures.failure_law import Exponential, FailureLaw, Lognormal, Weibull
from simcluster.job.failures.fleet import Component, Fleet
from simcluster.job.failures.incident import FailureEffect, Incident
from simcluster.job.failures.incident_stream import NANOSECONDS, PlannedMaintenance
from simcluster.registry import data_files

LawName = Literal["exponential", "weibull", "lognormal"]
Effect = Literal["stop", "hang", "slow", "transient", "corrupt"]
LASTING = ("slow", "transient", "corrupt")
KEEPS_HOST = ("process", "job", "link", "switch")
"""What fails without any fault of a host: it is begun anew, or routed around."""


class ObservationSpec(Section):
    """An observed number of failures: ``{count: 148, components: 16384, over: 54 d}``."""

    count: PositiveInt
    """Number of failures observed."""

    components: PositiveInt
    """Number of components that could have failed."""

    over: Duration
    """Period of observation."""

    @property
    def mtbf_s(self) -> float:
        """The mean time between failures of one component."""
        return self.components * self.over / self.count


class CauseSpec(Section):
    """Random failures of one cause: ``{cause: memory, component: device, mtbf: 300000 h}``."""

    cause: Name
    """Name of the cause in reports."""

    component: Component
    """What fails: every component of this kind fails independently, by the same distribution.

    ``process``: a device's process fails, but not its hardware; ``link``: between a network card and its
    switch; ``switch`` and ``power_domain``: with ``hosts_each`` hosts; ``job``: the whole job.
    """

    effect: Effect = "stop"
    """Effect of a failure: the component is gone (stop), waits forever without an error (hang), is slower for
    a time (slow), retransmits for a time (transient), or computes wrong values that are noticed after a time
    (corrupt): the job then goes back to the last checkpoint from before, if that is still kept."""

    mtbf: Figure[Duration] | None = None
    """Mean time between failures of one component."""

    observed: Figure[ObservationSpec] | None = None
    """Instead of ``mtbf``: an observed number of failures of so many components in a period."""

    law: LawName = "exponential"
    """Distribution of the time between failures of one component; its mean is the MTBF."""

    shape: PositiveFloat | None = None
    """Shape of a Weibull distribution; for lognormal, the standard deviation of the logarithm."""

    begin: Literal["settled", "new"] = "settled"
    """Whether components have long been in use when the job starts, or are new."""

    replaces: bool | None = None
    """Whether the host must be replaced; by default it must, unless a process, job, link or switch failed or
    the effect is hang or slow."""

    hosts_each: PositiveInt = 1
    """Hosts behind each switch, or in each power domain."""

    factor: Annotated[float, Field(gt=0, lt=1)] | None = None
    """Factor on the speed of a slow device."""

    lasts: Duration | None = None
    """Mean duration of a slow device or of a transient error; mean time until a corruption is noticed."""

    lasts_shape: PositiveFloat | None = None
    """Standard deviation of the logarithm of the duration, which is lognormal; if absent, it is always the
    mean."""

    spread: Annotated[float, Field(ge=0, le=1)] = 0.0
    """Probability that another device of the same host fails of the same cause within ``spread_within``."""

    spread_within: Duration = 3600.0
    """See ``spread``."""

    @model_validator(mode="after")
    def _is_whole(self) -> CauseSpec:
        if (self.mtbf is None) == (self.observed is None):
            raise Refused(
                "how often? write mtbf: 50000 h, or observed: {count, components, over}; one of the two"
            )
        if (mean := self._mtbf_s) <= 0:
            raise Refused(
                "a mean time between failures is longer than nothing",
                path="mtbf" if self.mtbf else "observed",
            )
        if not mean < 1e15:
            raise Refused("this never happens; leave the cause out", path="mtbf" if self.mtbf else "observed")
        if (self.law == "exponential") != (self.shape is None):
            wanted = (
                "an exponential law has none" if self.shape else f"a {self.law} law needs one, such as 0.7"
            )
            raise Refused(wanted, path="shape" if self.shape else "law")
        for key, wanted_by in (("factor", ("slow",)), ("lasts", LASTING)):
            _check_effect(self, key, wanted_by)
        if self.lasts_shape is not None and self.lasts is None:
            raise Refused("there is no 'lasts' of which it is the law", path="lasts_shape")
        _check_replaces(self)
        if self.effect == "slow" and self.component not in ("device", "host"):
            raise Refused(f"only a device or a host can be slow, not a {self.component}", path="component")
        if self.effect == "corrupt" and self.component not in ("device", "process", "host", "job"):
            raise Refused(f"a {self.component} computes nothing that could be wrong", path="component")
        if self.hosts_each != 1 and self.component not in ("switch", "power_domain"):
            raise Refused(f"a {self.component} has no hosts behind it", path="hosts_each")
        return self

    @property
    def _mtbf_s(self) -> float:
        if self.mtbf is not None:
            return self.mtbf.value
        assert self.observed is not None
        return self.observed.value.mtbf_s

    @property
    def replaces_host(self) -> bool:
        """Whether the host must be replaced."""
        if self.replaces is not None:
            return self.replaces
        return self.component not in KEEPS_HOST and self.effect not in ("hang", "slow")

    def build(self, scale: float) -> FailureCause:
        """The cause, with ``scale`` times its rate."""
        mean = self._mtbf_s / scale
        return FailureCause(
            name=self.cause,
            component=self.component,
            effect=FailureEffect(self.effect),
            law=_law(self.law, mean, self.shape),
            is_settled=self.begin == "settled",
            replaces=self.replaces_host,
            hosts_each=self.hosts_each,
            factor=self.factor or 1.0,
            duration=_duration(self.lasts, self.lasts_shape),
            spread=self.spread,
            spread_s=self.spread_within,
        )


def _law(name: LawName, mean: float, shape: float | None) -> FailureLaw:
    if name == "exponential" or shape is None:
        return Exponential(mean)
    return Weibull(mean, shape) if name == "weibull" else Lognormal(mean, shape)


def _duration(mean: float | None, sigma: float | None) -> Lognormal | None:
    """A lognormal law, of no spread where none is written."""
    return None if mean is None else Lognormal(mean, sigma or 0.0)


def _check_effect(written: CauseSpec | EventSpec, key: str, wanted_by: tuple[str, ...]) -> None:
    """Refused if a key is missing that the effect needs, or is there for another one."""
    needed = written.effect in wanted_by
    if needed and getattr(written, key) is None:
        raise Refused(f"'{key}' is missing: effect {written.effect} needs it", path="effect")
    if not needed and getattr(written, key) is not None:
        raise Refused(f"'{key}' is for effect {' or '.join(wanted_by)}, not for {written.effect}", path=key)


def _check_replaces(written: CauseSpec | EventSpec) -> None:
    """Refused if a host is replaced that the job keeps."""
    if written.replaces and written.effect == "slow":
        raise Refused("a slow device stays in the job: no host is replaced", path="replaces")


class EventSpec(Section):
    """A failure at a known time: ``{at: 3 h, device: 17}``.

    Or ``{at: 5 h, host: 3, effect: slow, factor: 0.5, lasts: 1 h}``.
    """

    at: Duration
    """Time since the start of the job."""

    device: NonNegativeInt | None = None
    """Index of the device that fails, over the whole job."""

    host: NonNegativeInt | None = None
    """Index of the host that fails."""

    hosts: Annotated[tuple[NonNegativeInt, ...], Field(min_length=1)] | None = None
    """Several hosts that fail at once, for example behind one switch or power supply."""

    effect: Effect = "stop"
    """Effect of the failure, as under ``causes``."""

    cause: Name | None = None
    """Name of the cause in reports; if absent, named after the effect and the component."""

    replaces: bool | None = None
    """Whether the host must be replaced; by default it must if the effect is stop or corrupt."""

    factor: Annotated[float, Field(gt=0, lt=1)] | None = None
    """Factor on the speed of a slow device."""

    lasts: Duration | None = None
    """Duration of a slow device or of a transient error; time until a corruption is noticed."""

    @model_validator(mode="after")
    def _is_whole(self) -> EventSpec:
        named = [name for name in ("device", "host", "hosts") if getattr(self, name) is not None]
        if len(named) != 1:
            raise Refused("what fails? write one of device: 17, host: 3, or hosts: [0, 1]")
        for key, wanted_by in (("factor", ("slow",)), ("lasts", LASTING)):
            _check_effect(self, key, wanted_by)
        _check_replaces(self)
        if self.hosts is not None and len(set(self.hosts)) < len(self.hosts):
            raise Refused("a host is listed twice", path="hosts")
        return self

    @property
    def replaces_host(self) -> bool:
        """Whether a host must be replaced."""
        return self.effect in ("stop", "corrupt") if self.replaces is None else self.replaces

    def build(self, fleet: Fleet) -> Incident:
        """The incident; PlanError, with a key, if there is no such device or host."""
        for key, count in (
            ("device", fleet.num_devices),
            ("host", fleet.num_hosts),
            ("hosts", fleet.num_hosts),
        ):
            written = getattr(self, key)
            for index in written if isinstance(written, tuple) else () if written is None else (written,):
                if index >= count:
                    raise PlanError(
                        f"there is no {key.rstrip('s')} {index}; the last is {count - 1}", path=key
                    )
        component, hosts, devices = self._failed(fleet)
        return Incident(
            round(self.at * NANOSECONDS),
            self.cause or (f"failed {component}" if self.effect == "stop" else f"{self.effect} {component}"),
            component,
            FailureEffect(self.effect),
            hosts,
            devices,
            self.replaces_host,
            round((self.lasts or 0.0) * NANOSECONDS),
            self.factor or 1.0,
        )

    def _failed(self, fleet: Fleet) -> tuple[str, tuple[int, ...], tuple[int, ...]]:
        """The kind of component, the hosts and the devices."""
        if self.device is not None:
            return "device", (fleet.host_of(self.device),), (self.device,)
        if self.host is not None:
            return "host", (self.host,), ()
        assert self.hosts is not None
        return "host", self.hosts, ()


class MaintenanceSpec(Section):
    """Maintenance at known times: ``{at: 24 h, every: 24 h, lasts: 30 min}``."""

    at: Duration
    """Start of the first maintenance, since the start of the job."""

    lasts: Duration
    """How long the hosts are unavailable."""

    every: Duration | None = None
    """Time from the start of one maintenance to the start of the next; if absent, there is only one."""

    @model_validator(mode="after")
    def _ends(self) -> MaintenanceSpec:
        if self.every is not None and self.every <= self.lasts:
            raise Refused("the next one begins before this one is over", path="every")
        return self

    def build(self) -> PlannedMaintenance:
        """The same in nanoseconds."""
        every = None if self.every is None else round(self.every * NANOSECONDS)
        return PlannedMaintenance(round(self.at * NANOSECONDS), every, round(self.lasts * NANOSECONDS))


class FailuresSpec(CatalogSection):
    """``job.failures``: ``llama3-405b``, or ``{use: llama3-405b, events: [{at: 3 h, device: 17}]}``."""

    noun: ClassVar[str] = "failure preset"

    title: Name | None = None
    """Display name."""

    causes: tuple[CauseSpec, ...] = ()
    """Random failures, by cause."""

    rate: PositiveFloat = 1.0
    """Factor on the failure rates of all causes: 2 is hardware that fails twice as often."""

    events: tuple[EventSpec, ...] = ()
    """Failures at known times."""

    maintenance: tuple[MaintenanceSpec, ...] = ()
    """Maintenance at known times."""

    @model_validator(mode="after")
    def _names_differ(self) -> FailuresSpec:
        names = [cause.cause for cause in self.causes]
        for index, name in enumerate(names):
            if name in names[:index]:
                raise Refused(f"there is another cause '{name}'", path=f"causes.{index}.cause")
        return self

    @classmethod
    def entries(cls) -> Mapping[str, Traversable]:
        """The shipped presets."""
        return data_files("simcluster.job.failures.presets")

    @property
    def replace_hosts(self) -> bool:
        """Whether hosts fail so that they must be replaced."""
        return any(cause.replaces_host for cause in self.causes) or any(
            event.replaces_host for event in self.events
        )

    def built_causes(self, fleet: Fleet) -> tuple[FailureCause, ...]:
        """The causes; PlanError for one whose component the hosts do not have."""
        for index, cause in enumerate(self.causes):
            fleet.check(cause.component, cause.hosts_each, f"job.failures.causes.{index}.component")
        return tuple(cause.build(self.rate) for cause in self.causes)

    def built_events(self, fleet: Fleet) -> tuple[Incident, ...]:
        """The listed failures; PlanError for one of a device or host that is not there."""
        return tuple(_built(event, index, fleet) for index, event in enumerate(self.events))

    def built_maintenance(self) -> Sequence[PlannedMaintenance]:
        """The maintenance."""
        return tuple(planned.build() for planned in self.maintenance)


def _built(event: EventSpec, index: int, fleet: Fleet) -> Incident:
    try:
        return event.build(fleet)
    except PlanError as error:
        inner = error.problems[0]
        raise PlanError(inner.message, path=f"job.failures.events.{index}.{inner.path}") from None
