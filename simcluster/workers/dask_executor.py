"""The workers of a Dask cluster as an executor (extra ``cluster``)."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, Executor, Future, ThreadPoolExecutor
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, TypeVar

from simcluster._version import __version__
from simcluster.errors import Problem, ScenarioError
from simcluster.workers.interrupts import interrupts_blocked

if TYPE_CHECKING:
    from distributed import Client

LOCAL = "local"
"""The address that means: start a scheduler and workers on this machine."""

_ANSWER_SECONDS = 5.0
"""How long a scheduler may take to answer."""

_JOIN_SECONDS = 30.0
"""How long to wait for a scheduler's first worker."""

_RECOUNT_SECONDS = 1.0

_CALLS_PER_THREAD = 2
"""Calls handed out per thread, so that none waits for the network between two."""

Result = TypeVar("Result")


class DaskExecutor(Executor):
    """Calls on the workers of a Dask cluster, which may join and leave meanwhile.

    The scheduler gives the call of a worker that dies to another; where that has happened as often as it
    allows, the future has a BrokenExecutor. Leaving the ``with`` block drops what is not done; workers
    that were there before stay.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self._calls = client.get_executor(pure=False)
        self._stack = ExitStack()
        self._num_threads, self._counted = 0, 0.0

    @classmethod
    def connect(cls, address: str, jobs: int) -> DaskExecutor:
        """The cluster of a scheduler (``tcp://10.0.0.1:8786``), or one of ``jobs`` processes here: ``local``.

        Raises ScenarioError, within seconds, if no scheduler answers there, if it has no workers, or if one
        of them has another version of simcluster.
        """
        try:
            import dask
            from distributed import Client
        except ImportError:
            raise ScenarioError(
                Problem(
                    "Dask needs the extra cluster",
                    where=f"--dask {address}",
                    hint="pip install 'simcluster[cluster]', or pip install '.[cluster]' in a checkout",
                    extra="cluster",
                )
            ) from None
        with ExitStack() as stack:
            # As long as Dask looks for a worker that died, calls wait that another will do.
            stack.enter_context(dask.config.set({"distributed.comm.timeouts.connect": _ANSWER_SECONDS}))
            if address == LOCAL:
                from distributed import LocalCluster

                with interrupts_blocked():
                    cluster: Any = LocalCluster(
                        n_workers=jobs, threads_per_worker=1, dashboard_address=None, silence_logs="CRITICAL"
                    )
                stack.enter_context(cluster)
            else:
                _check_scheduler(address)
                cluster = address
            client = stack.enter_context(Client(cluster, timeout=_ANSWER_SECONDS, set_as_default=False))
            executor = cls(client)
            executor._check_workers(address)
            executor._stack = stack.pop_all()
            return executor

    @property
    def num_workers(self) -> int:
        """How many calls to hand to the cluster as it is now: two for each thread of its workers."""
        now = time.monotonic()
        if not self._num_threads or now > self._counted + _RECOUNT_SECONDS:
            try:
                self._num_threads, self._counted = sum(self._client.nthreads().values()), now
            except OSError as error:
                raise BrokenExecutor("the Dask scheduler does not answer any more") from error
        return _CALLS_PER_THREAD * max(1, self._num_threads)

    def submit(self, function: Callable[..., Any], /, *arguments: Any, **named: Any) -> Future[Any]:
        """The outcome of a call on some worker: a function of a module, and arguments that can be pickled."""
        try:
            future = self._calls.submit(_call, __version__, function, arguments, named)
        except RuntimeError as error:
            raise BrokenExecutor(f"the Dask scheduler takes no more calls: {error}") from error
        return _translated(future)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Leaves the cluster, once all calls are over or, with ``cancel_futures``, now."""
        self._calls.shutdown(wait=wait and not cancel_futures)
        log = logging.getLogger("distributed.client")
        level = log.level
        log.setLevel(logging.CRITICAL)  # that a scheduler is gone is told by the error of a call
        try:
            self._stack.close()
        finally:
            log.setLevel(level)

    def __exit__(self, *_: object) -> None:
        self.shutdown(cancel_futures=True)

    def _check_workers(self, address: str) -> None:
        where = f"--dask {address}"
        try:
            self._client.wait_for_workers(1, timeout=_JOIN_SECONDS)
        except TimeoutError:
            raise ScenarioError(
                Problem(
                    f"the scheduler is there, but no worker has joined it in {_JOIN_SECONDS:.0f} s",
                    where=where,
                    hint=f"start one where simcluster is installed: dask worker {address}",
                )
            ) from None
        versions = self._client.run(_version, on_error="return")
        wrong = {name: version for name, version in versions.items() if version != __version__}
        for name, version in sorted(wrong.items()):
            described = (
                f"simcluster {version}" if isinstance(version, str) else "no simcluster that it can import"
            )
            raise ScenarioError(
                Problem(
                    f"worker {name} has {described}; here is {__version__}, and all must be the same",
                    where=where,
                )
            )


def _check_scheduler(address: str) -> None:
    """Raises ScenarioError unless a Dask scheduler answers at an address.

    A client that never reached one would wait for it once more when Python ends, so none is made before.
    """
    import asyncio

    from distributed.core import rpc

    async def identity() -> Any:
        async with rpc(address, timeout=_ANSWER_SECONDS) as scheduler:
            return await asyncio.wait_for(scheduler.identity(), _ANSWER_SECONDS)

    form = "such as tcp://10.0.0.1:8786, or 'local' for processes of this machine"
    where = f"--dask {address}"
    try:
        with ThreadPoolExecutor(1) as thread:  # a notebook has an event loop running in this one
            answer = thread.submit(asyncio.run, identity()).result()
    except ValueError as error:
        raise ScenarioError(Problem(f"{error}; expected an address {form}", where=where)) from None
    except (OSError, TimeoutError) as error:
        raise ScenarioError(
            Problem(
                f"no Dask scheduler answers there within {_ANSWER_SECONDS:.0f} s",
                where=where,
                hint="start one with 'dask scheduler', and workers with 'dask worker ADDRESS'; "
                "or write --dask local",
            )
        ) from error
    if answer.get("type") != "Scheduler":
        raise ScenarioError(
            Problem(f"a Dask {str(answer.get('type')).lower()} answers there, no scheduler", where=where)
        )


def _version() -> str:
    """The version on a worker."""
    return __version__


def _call(version: str, function: Callable[..., Result], arguments: Any, named: Any) -> Result:
    """A call on a worker, which may have joined late: with another version it must not answer."""
    if version != __version__:
        raise RuntimeError(f"this worker has simcluster {__version__}, not {version}")
    return function(*arguments, **named)


def _translated(future: Future[Any]) -> Future[Any]:
    """The future of a call for those who know nothing of Dask: its KilledWorker is a BrokenExecutor."""
    from distributed import KilledWorker

    outcome: Future[Any] = Future()

    def take_over(done: Future[Any]) -> None:
        if done.cancelled():
            outcome.cancel()
            outcome.set_running_or_notify_cancel()
        elif isinstance(error := done.exception(), KilledWorker):
            outcome.set_exception(BrokenExecutor(f"the workers died: {error}"))
        elif error is not None:
            outcome.set_exception(error)
        else:
            outcome.set_result(done.result())

    def pass_on(ended: Future[Any]) -> None:
        if ended.cancelled():
            future.cancel()

    outcome.add_done_callback(pass_on)
    future.add_done_callback(take_over)
    return outcome
