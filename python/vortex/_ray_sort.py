"""How a sort beyond one machine is divided into tasks, and what becomes of these."""

from __future__ import annotations

import contextlib
import errno
import time
from typing import Any, Iterable, Iterator, NamedTuple, Sequence

import ray

from . import _ray_tasks
from ._ray_plan import SAMPLES_OF_PARTITION, Cluster, Plan, borders_of, cluster
from ._ray_started import LOST, Progress, Tasks
from ._ray_tasks import Border, Job, Piece, Summary, part_name

_TRIES = 10  # at making again what nodes have lost
_SAMPLED, _LEAST_SAMPLE = 256 << 20, 1 << 10  # bytes of all lines that are sampled, and of one
_FLYING = 2  # waves


class SortReport(NamedTuple):
    """What a sort did: records and their bytes; input parts, and files of output; how often the stores were filled (1:
    nothing went to the folders); partitions that were made again for a node that was lost; seconds of each stage, and
    of processors in the tasks."""

    records: int
    bytes: int
    parts: int
    partitions: int
    waves: int
    made_again: int
    seconds: dict[str, float]
    processor_seconds: float

    def json(self) -> dict[str, Any]:
        """The same by the names that `vortex sort --json` gives to what one machine does."""
        seconds = sum(self.seconds.values())
        in_runs = self.bytes if self.waves > 1 else 0
        return {
            "kind": "vortex sort beyond one machine",
            "records_in": self.records,
            "records_out": self.records,
            "runs": self.waves * self.partitions if in_runs else 0,
            "merges": self.partitions,
            "passes": 1,
            "run_bytes": in_runs,
            "read_bytes": self.bytes + in_runs,
            "written_bytes": self.bytes + in_runs,
            "io_bytes": 2 * (self.bytes + in_runs),
            "cpu_seconds": round(self.processor_seconds, 3),
            "cpu_seconds_per_gib": round(self.processor_seconds / max(self.bytes, 1) * 2**30, 3),
            "run_formation_seconds": round(seconds - self.seconds.get("writing", 0.0), 3),
            "merge_seconds": self.seconds.get("writing", 0.0),
            "seconds": round(seconds, 3),
            "bytes_per_second": self.bytes / max(seconds, 1e-9),
            "parts": self.parts,
            "partitions": self.partitions,
            "waves": self.waves,
            "made_again": self.made_again,
        }


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
        self.tasks = Tasks(job, progress)
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
        self._merged: list[set[int]] = [set() for _ in self._groups]  # waves, on the nodes
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
        most = max(_LEAST_SAMPLE, _SAMPLED // (of_part * len(self._parts)))
        of_task = -(-len(self._parts) // (2 * there.processors))
        numbered = list(enumerate(self._parts))
        refs = {}
        for first in range(0, len(numbered), of_task):
            some = numbered[first : first + of_task]
            ref = self.tasks.start(_ray_tasks.sample, "sample", some, of_part, most, memory=0)
            refs[ref] = sum(self._bytes[first : first + of_task])
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
        """What a lost node has merged is mapped again, and merged on another one."""
        self._look_for_room(total)
        for attempt in range(2 * _TRIES):  # what is lost while parts are written takes two
            if any(self._lacking(number) for number in range(len(self.waves))):
                with self._stage("making again" if attempt else "mapping"):
                    self._merge_waves(total)
            elif self._written(total):
                return
        raise OSError(errno.EIO, f"nodes were lost {_TRIES} times while their runs were made again")

    def _look_for_room(self, total: int) -> None:
        """Before anything is mapped: each node will have runs for its partitions."""
        asked = {
            self.tasks.start(_ray_tasks.free_bytes, "look for room", node=node, soft=False, memory=0): at
            for at, node in self._nodes.items()
        }
        for ref, at in asked.items():
            with contextlib.suppress(*LOST):  # its partitions go elsewhere
                free, first, end = self.tasks.result(ref), *self._groups[at]
                wanted = total * (end - first) // (len(self._borders) + 1)
                if free < wanted:
                    said = f"the runs of node {self._nodes[at]} take {wanted} bytes, and its folders have {free}"
                    raise OSError(errno.ENOSPC, said, (self.job.folders or ["its folder for temporary files"])[0])

    def _lacking(self, number: int) -> list[int]:
        """The groups whose nodes do not have a wave, and will need it."""
        return [at for at, merged in enumerate(self._merged) if number not in merged and self._left(at)]

    def _left(self, at: int) -> list[int]:
        """The partitions of a group that are not written."""
        return [number for number in range(*self._groups[at]) if number not in self.results]

    def _merge_waves(self, total: int) -> None:
        """While one wave is merged, the next one is mapped. What is lost meanwhile is lacking afterwards."""
        flying: list[tuple[int, list[list[Any]], dict[Any, tuple[int, str]]]] = []

        def land() -> None:
            number, mapped, merges = flying.pop(0)
            self._note(self.waves[number], mapped, total)
            for ref, (at, node) in merges.items():
                try:
                    self.tasks.result(ref)
                except LOST:
                    self._move(at, node)
                else:
                    if self._nodes[at] == node:
                        self._merged[at].add(number)

        for number, wave in enumerate(self.waves):
            if len(flying) == _FLYING:
                land()
            if groups := self._lacking(number):
                mapped = self._mapped(wave, groups)
                flying.append((number, mapped, self._merges(number, mapped, groups)))
        while flying:
            land()

    def _move(self, at: int, node: str) -> None:
        """A group goes to the node that has least to do, unless it has left `node` already."""
        if self._nodes[at] != node:
            return
        self.made_again += len(self._left(at))
        self._merged[at].clear()
        nodes = cluster().nodes
        others = [one for one in nodes if one != node] or nodes
        self._nodes[at] = min(others, key=list(self._nodes.values()).count)

    def _merges(self, wave: int, mapped: list[list[Any]], groups: Sequence[int]) -> dict[Any, tuple[int, str]]:
        """The merge of each group, as a reference, and where it is."""
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
                soft=False,
                memory=self.job.form.memory_of_merge(self.job.memory),
            )
            refs[ref] = at, self._nodes[at]
        return refs

    def _written(self, total: int) -> bool:
        """Writes what is not there yet; False: some groups have lost their runs."""
        refs = {}
        with self._stage("writing"):
            for at in range(len(self._groups)):
                for number in self._left(at):
                    ref = self.tasks.start(
                        _ray_tasks.write_part_of_runs,
                        f"write {part_name(number)}",
                        number,
                        len(self.waves),
                        node=self._nodes[at],
                        soft=False,
                    )
                    refs[ref] = at, number, self._nodes[at]
            each = total // max(1, len(refs))
            lost = set()
            for ref in self.tasks.ended(dict.fromkeys(refs, each), "writing", total):
                at, number, node = refs[ref]
                try:
                    self.results[number] = self.tasks.result(ref)
                except LOST:
                    lost.add((at, node))
        for at, node in sorted(lost):
            self._move(at, node)
        return not lost

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
            sum(self._bytes),
            len(self._parts),
            len(self.results),
            len(self.waves),
            self.made_again,
            {name: round(s, 3) for name, s in self.seconds.items()},
            round(self.tasks.processor_seconds, 3),
        )
