"""How a sort beyond one machine is divided into tasks, and what becomes of these."""

from __future__ import annotations

import contextlib
import errno
import functools
import time
from typing import Any, Callable, Iterable, Iterator, NamedTuple, Sequence

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from . import _ray_tasks
from ._ray_plan import SAMPLES_OF_PARTITION, Cluster, Plan, borders_of, cluster
from ._ray_tasks import Border, Job, LostRuns, Piece, Summary, part_name

_TRIES = 5
_PATIENCE = 600.0  # seconds, with a cluster that may be gone
_RETRIES = 10
_LOST = (
    LostRuns,
    ray.exceptions.TaskUnschedulableError,
    ray.exceptions.NodeDiedError,
    ray.exceptions.ObjectLostError,
    ray.exceptions.ActorUnschedulableError,
)

Progress = Callable[[str, int, "int | None"], Any]

_remote = functools.cache(ray.remote)  # a function is sent to the cluster once


class SortReport(NamedTuple):
    """What a sort did: records; input parts, and files of output; how often the stores were filled (1: nothing
    went to the folders); partitions that were made again for a node that was lost; seconds of each stage."""

    records: int
    parts: int
    partitions: int
    waves: int
    made_again: int
    seconds: dict[str, float]


class _Tasks:
    """Tasks that were started, so that they can be ended, and what they raised."""

    def __init__(self, job: Job, progress: Progress | None) -> None:
        self.job = job
        self._progress = progress
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
            _remote(_ray_tasks.run)
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
            return ray.get(ref)
        except ray.exceptions.RayTaskError as failed:
            raise (failed.cause if isinstance(failed.cause, Exception) else failed) from None

    def ended(self, refs: dict[Any, int], phase: str, total: int) -> Iterator[Any]:
        """Each task as it ends; `refs` has the bytes of each."""
        left = dict(refs)
        self.tell(phase, 0, total)
        while left:
            ready, _ = ray.wait(list(left), num_returns=1, timeout=1.0, fetch_local=False)
            for ref in ready:
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
        left = list(self._all)
        if left:
            with _ray_tasks.stopped(self.job):
                ray.wait(left, num_returns=len(left), timeout=_PATIENCE, fetch_local=False)
        self._all.clear()

    def clean(self) -> None:
        """Removes the folders of this sort on all nodes."""
        refs = []
        for one in ray.nodes():
            if one["Alive"]:
                strategy = NodeAffinitySchedulingStrategy(one["NodeID"], soft=False)
                options = {"name": "vortex clean", "num_cpus": 0, "scheduling_strategy": strategy}
                refs.append(_remote(_ray_tasks.clean).options(**options).remote(self.job))
        ray.wait(refs, num_returns=len(refs), timeout=_PATIENCE, fetch_local=False)
        _ray_tasks.clean(self.job)


class _Group(NamedTuple):
    """Partitions [first, end), which one node makes."""

    first: int
    end: int


class Sort:
    """One sort. run() makes the parts; what they are is known then."""

    def __init__(
        self, job: Job, parts: list[list[Piece]], there: Cluster, plan: Plan, progress: Progress | None
    ) -> None:
        self.job = job
        self.tasks = _Tasks(job, progress)
        self.seconds: dict[str, float] = {}
        self.summaries: dict[int, list[Summary]] = {}  # of each part's pieces
        self.results: dict[int, Summary] = {}  # of each partition
        self.made_again = 0
        self.waves: list[list[int]] = []
        self._parts = parts
        self._bytes = [sum(piece.size for piece in part) for part in parts]
        self._there, self._plan = there, plan
        self._borders: list[Border] = []
        self._borders_of_maps: Any = None  # the same, as a reference: each map has them, sent once a node

    @contextlib.contextmanager
    def _stage(self, name: str) -> Iterator[None]:
        begin = time.monotonic()
        yield
        self.seconds[name] = self.seconds.get(name, 0.0) + time.monotonic() - begin

    def run(self) -> None:
        there, total = self._there, sum(self._bytes)
        with self._stage("sampling"):
            self._borders = self._sampled(there, total)
        self._borders_of_maps = ray.put(self._borders)
        partitions = len(self._borders) + 1
        count = min(len(there.nodes), partitions)
        edges = [at * partitions // count for at in range(count + 1)]
        self._groups = [_Group(*pair) for pair in zip(edges, edges[1:])]
        self._nodes = dict(enumerate(there.nodes[:count]))  # of each group
        self.waves = list(self._filled(self._plan.wave_bytes))
        if self._plan.waves == 1:
            self._through_stores(total)
        else:
            self._through_folders(total)

    def _sampled(self, there: Cluster, total: int) -> list[Border]:
        """By some tasks, each with neighbouring parts."""
        if self._plan.partitions < 2 or not self._parts:
            return []
        of_part = -(-SAMPLES_OF_PARTITION * self._plan.partitions // len(self._parts))
        of_task = -(-len(self._parts) // (2 * there.processors))
        numbered = list(enumerate(self._parts))
        refs = {}
        for first in range(0, len(numbered), of_task):
            some = numbered[first : first + of_task]
            refs[self.tasks.start(_ray_tasks.sample, "sample", some, of_part, memory=0)] = sum(
                self._bytes[first : first + of_task]
            )
        samples: list[Border] = []
        for ref in self.tasks.ended(refs, "sampling", total):
            samples += self.tasks.result(ref)
        return borders_of(self.job.form, samples, self._plan.partitions)

    def _filled(self, most: float) -> Iterator[list[int]]:
        """Parts, in order, as many at a time as have that many bytes; one at least."""
        wave: list[int] = []
        size = 0
        for number, bytes_ in enumerate(self._bytes):
            if wave and size + bytes_ > most:
                yield wave
                wave, size = [], 0
            wave.append(number)
            size += bytes_
        yield wave

    def _mapped(self, wave: Iterable[int], groups: Sequence[int]) -> list[list[Any]]:
        """Of each part: what it tells of its pieces, and a share for each group, as references."""
        shares = [self._groups[at] for at in groups]
        return [
            self.tasks.start(
                _ray_tasks.map_part,
                f"map {number} of {len(self._parts)}",
                number,
                self._parts[number],
                self._borders_of_maps,
                shares,
                returns=1 + len(shares),
            )
            for number in wave
        ]

    def _note(self, wave: Sequence[int], mapped: list[list[Any]], total: int) -> None:
        """Waits for maps."""
        numbers = {refs[0]: number for number, refs in zip(wave, mapped)}
        for ref in self.tasks.ended({ref: self._bytes[at] for ref, at in numbers.items()}, "mapping", total):
            self.summaries[numbers[ref]] = self.tasks.result(ref)

    def _through_stores(self, total: int) -> None:
        wave = self.waves[0]
        with self._stage("mapping"):
            mapped = self._mapped(wave, range(len(self._groups)))
            self._note(wave, mapped, total)
        with self._stage("writing"):
            refs = {}
            for at, group in enumerate(self._groups):
                shares = [refs_of_part[1 + at] for refs_of_part in mapped]
                for number in range(group.first, group.end):
                    ref = self.tasks.start(
                        _ray_tasks.write_part,
                        f"write {part_name(number)}",
                        number,
                        number - group.first,
                        *shares,
                        node=self._nodes[at],
                        memory=self.job.form.memory_of_merge(self.job.memory),
                    )
                    refs[ref] = number
            each = total // max(1, len(refs))
            for ref in self.tasks.ended(dict.fromkeys(refs, each), "writing", total):
                self.results[refs[ref]] = self.tasks.result(ref)

    def _through_folders(self, total: int) -> None:
        """While one wave is merged, the next one is mapped. A group whose node is lost is made again."""
        lost: set[int] = set()
        with self._stage("mapping"):
            merges: list[dict[Any, int]] = []
            for number, wave in enumerate(self.waves):
                groups = [at for at in range(len(self._groups)) if at not in lost]
                if not groups:
                    break
                mapped = self._mapped(wave, groups)
                merges.append(self._merges(number, mapped, groups, soft=False))
                self._note(wave, mapped, total)
                if len(merges) > 1:
                    lost |= self._lost_of(merges.pop(0))
            for some in merges:
                lost |= self._lost_of(some)
        left = set(range(len(self._groups)))
        for attempt in range(_TRIES):
            for at in sorted(lost & left):
                with self._stage("making again"):
                    self._make_again(at, attempt)
            lost = self._written(left, total)
            left = {at for at in left if any(number not in self.results for number in range(*self._groups[at]))}
            if not left:
                return
        raise OSError(errno.EIO, f"nodes were lost {_TRIES} times while their runs were made again")

    def _merges(self, wave: int, mapped: list[list[Any]], groups: Sequence[int], soft: bool) -> dict[Any, int]:
        """The merge of each group, as a reference."""
        refs = {}
        for place, at in enumerate(groups):
            shares = [refs_of_part[1 + place] for refs_of_part in mapped]
            ref = self.tasks.start(
                _ray_tasks.merge_shares,
                f"merge {wave} for parts {self._groups[at].first} on",
                wave,
                self._groups[at].first,
                *shares,
                node=self._nodes[at],
                soft=soft,
                memory=self.job.form.memory_of_merge(self.job.memory),
            )
            refs[ref] = at
        return refs

    def _lost_of(self, merges: dict[Any, int]) -> set[int]:
        """The groups whose merges have nowhere to go, of those that are waited for."""
        lost = set()
        for ref, at in merges.items():
            try:
                self.tasks.result(ref)
            except _LOST:
                lost.add(at)
        return lost

    def _make_again(self, at: int, attempt: int) -> None:
        """Maps all inputs once more, for one group alone, on a node that is there."""
        self.made_again += self._groups[at].end - self._groups[at].first
        nodes = cluster().nodes
        self._nodes[at] = nodes[(at + attempt) % len(nodes)]
        for number, wave in enumerate(self.waves):
            mapped = self._mapped(wave, [at])
            self._note(wave, mapped, sum(self._bytes))
            if self._lost_of(self._merges(number, mapped, [at], soft=False)):
                return  # its parts cannot be written, and it is tried again

    def _written(self, groups: set[int], total: int) -> set[int]:
        """Writes what is not there yet; returns the groups that have lost their runs."""
        lost: set[int] = set()
        with self._stage("writing"):
            refs = {}
            for at in groups:
                for number in range(*self._groups[at]):
                    if number not in self.results:
                        ref = self.tasks.start(
                            _ray_tasks.write_part_of_runs,
                            f"write {part_name(number)}",
                            number,
                            len(self.waves),
                            node=self._nodes[at],
                            soft=False,
                        )
                        refs[ref] = (at, number)
            each = total // max(1, len(refs))
            for ref in self.tasks.ended(dict.fromkeys(refs, each), "writing", total):
                at, number = refs[ref]
                try:
                    self.results[number] = self.tasks.result(ref)
                except _LOST:
                    lost.add(at)
        return lost

    def pieces(self, number: int) -> list[Piece]:
        """Of a part."""
        return self._parts[number]

    @property
    def partitions(self) -> int:
        """That there may be."""
        return len(self._borders) + 1

    def report(self) -> SortReport:
        return SortReport(
            sum(one.records for one in self.results.values()),
            len(self._parts),
            len(self.results),
            len(self.waves),
            self.made_again,
            {name: round(s, 3) for name, s in self.seconds.items()},
        )
