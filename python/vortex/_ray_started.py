"""The tasks that a sort beyond one machine has started."""

from __future__ import annotations

import functools
import itertools
from typing import Any, Callable, Iterator

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from . import _ray_tasks
from ._ray_tasks import Job, LostRuns

_PATIENCE = 600.0  # seconds, with a cluster that may be gone
_RETRIES = 10
_ASKED = 1000  # tasks, at a time
LOST = (
    LostRuns,
    ray.exceptions.TaskUnschedulableError,
    ray.exceptions.NodeDiedError,
    ray.exceptions.ObjectLostError,
    ray.exceptions.ActorUnschedulableError,
)

Progress = Callable[[str, int, "int | None"], Any]

remote = functools.cache(ray.remote)  # a function is sent to the cluster once


def _ready(refs: list[Any], count: int, seconds: float) -> list[Any]:
    """Those that have ended, when these are `count`, or so many seconds have gone by."""
    ready, _ = ray.wait(refs, num_returns=count, timeout=seconds, fetch_local=False)
    return list(ready)


class Tasks:
    """Tasks that were started, so that they can be ended, and what they raised."""

    def __init__(self, job: Job, progress: Progress | None) -> None:
        self.job = job
        self._progress = progress
        self.processor_seconds = 0.0  # of those whose results were asked for
        self._all: set[Any] = set()
        self._done: dict[str, int] = {}  # bytes, in each phase

    def start(
        self,
        function: Any,
        name: str,
        *arguments: Any,
        node: str = "",
        soft: bool = True,
        returns: int = 1,
        memory: int | None = None,
    ) -> Any:
        strategy = NodeAffinitySchedulingStrategy(node, soft=soft) if node else "SPREAD"
        memory = self.job.memory if memory is None else memory
        refs = (
            remote(_ray_tasks.run)
            .options(
                name=f"vortex {name}",
                num_cpus=1,
                memory=memory,
                num_returns=returns,
                max_retries=_RETRIES,
                retry_exceptions=False,
                scheduling_strategy=strategy,
            )
            .remote(self.job, returns, function, *arguments)
        )
        self._all.add(refs[0] if returns > 1 else refs)
        return refs

    def result(self, ref: Any) -> Any:
        """Raises what the task raised, as it raised it."""
        self._all.discard(ref)
        try:
            result, seconds = ray.get(ref)
        except KeyboardInterrupt:
            self._all.add(ref)  # it may run, and end() waits for it
            raise
        except ray.exceptions.RayTaskError as failed:
            raise (failed.cause if isinstance(failed.cause, Exception) else failed) from None
        self.processor_seconds += seconds
        return result

    def ended(self, refs: dict[Any, int], phase: str, total: int) -> Iterator[Any]:
        """Each task as it ends; `refs` has the bytes of each."""
        left = dict(refs)
        self.tell(phase, 0, total)
        while left:
            # As many as cost little to ask for, the first ones first, and all of those that have ended.
            asked = list(itertools.islice(left, _ASKED))
            if not (ready := _ready(asked, 1, 1.0)):
                continue
            for ref in dict.fromkeys(ready + _ready(asked, len(asked), 0)):
                some = left.pop(ref)
                yield ref
                self.tell(phase, some, total)

    def tell(self, phase: str, more: int, total: int) -> None:
        """What is done once more does not count."""
        self._done[phase] = min(total, self._done.get(phase, 0) + more)
        if self._progress is not None:
            self._progress(phase, self._done[phase], total)

    def end(self) -> None:
        """Ends what has not begun, and waits for what has: it may be writing.

        Not by ray.cancel(): Ray 2.60 may end this process where it cancels a task that ends, or that looks for what
        it depends on.
        """
        if self._all:
            _ray_tasks.stop(self.job)
            if len(_ready(list(self._all), len(self._all), _PATIENCE)) == len(self._all):
                _ray_tasks.all_have_ended(self.job)  # else some may still begin
        self._all.clear()

    def clean(self) -> None:
        """Removes the folders of this sort on all nodes that may have run its tasks: on others a worker would start."""
        refs = []
        for one in ray.nodes():
            if one["Alive"] and one["Resources"].get("CPU", 0) >= 1:
                strategy = NodeAffinitySchedulingStrategy(one["NodeID"], soft=False)
                options = {"name": "vortex clean", "num_cpus": 0, "scheduling_strategy": strategy}
                refs.append(remote(_ray_tasks.clean).options(**options).remote(self.job))
        ray.wait(refs, num_returns=len(refs), timeout=_PATIENCE, fetch_local=False)
        _ray_tasks.clean(self.job)
