"""How a sort beyond one machine is divided, and what it would take."""

from __future__ import annotations

import errno
from typing import NamedTuple, Sequence

import ray

from ._ray_tasks import Border, Form, Piece, RecordForm, Stamp, Storage

_MOST_PART = 2 << 30
_LEAST_PART = 4 << 20
_PARTS_OF_PROCESSOR = 32
_OF_WAVE = 4  # parts for each processor: more of the stores would be memory that is touched for the first time
_LEAST_PARTITION = 256 << 20  # where nobody says how many there are
SAMPLES_OF_PARTITION = 100
# Of the memory of all stores: what maps have made lies there twice while it goes from node to node.
_IN_STORE = 0.8


class Cluster(NamedTuple):
    """What may be used: the nodes with processors, these, and the bytes of the smallest store of theirs."""

    nodes: list[str]
    processors: int
    store: int
    memory: float


def cluster() -> Cluster:
    alive = [node for node in ray.nodes() if node["Alive"] and node["Resources"].get("CPU", 0) >= 1]
    if not alive:
        raise OSError(errno.EAGAIN, "no node of Ray has a processor")
    resources = [node["Resources"] for node in alive]
    return Cluster(
        sorted(node["NodeID"] for node in alive),
        int(sum(one["CPU"] for one in resources)),
        int(min(one.get("object_store_memory", 0) for one in resources)),
        min(one.get("memory", 0) for one in resources),
    )


def parts_of(
    storage: Storage, form: Form, inputs: Sequence[tuple[str, Stamp, int, int]], part_bytes: int
) -> list[list[Piece]]:
    """The inputs (name, stamp, offset and length of the records), in order, as parts of about as many bytes."""
    parts: list[list[Piece]] = []
    room = 0
    for number, (path, stamp, offset, length) in enumerate(inputs):
        end = offset + length
        while offset < end:
            if room <= 0:
                parts.append([])
                room = part_bytes
            cut = end if room >= end - offset else form.cut(storage, path, offset + room, end)
            parts[-1].append(Piece(number, path, stamp, offset, cut - offset))
            room -= cut - offset
            offset = cut
        if length and not form.whole(storage, path, end):
            parts[-1][-1] = parts[-1][-1]._replace(newline=True)
    return parts


def borders_of(form: Form, samples: list[Border], partitions: int) -> list[Border]:
    """The first records of all partitions but the first, of which each has about as many samples."""
    samples = sorted(samples, key=lambda one: (one.part, one.place))
    order = form.order(samples)
    chosen = sorted({at * len(samples) // partitions for at in range(1, partitions)} - {0})
    return [samples[order[at]] for at in chosen]


class Plan(NamedTuple):
    """How records are divided. `waves`: how often the stores are filled; 1: nothing goes to the folders.
    wave_bytes: of the parts that are mapped at a time."""

    part_bytes: int
    parts: int
    partitions: int
    waves: int
    wave_bytes: int


def plan_of(there: Cluster, total: int, form: Form, memory: int, partitions: int) -> Plan:
    """A part is what a task holds in its memory, with the same sorted, and pairs of leading bits and places; all
    processors have some; and two waves are in the stores at a time, each of them twice."""
    processors = max(1, there.processors)
    partitions = partitions or max(processors, -(-total // _LEAST_PARTITION))
    in_stores = int(_IN_STORE * there.store * min(len(there.nodes), partitions))
    of_memory = int(memory / form.memory())
    least = max(_LEAST_PART, -(-total // (_PARTS_OF_PROCESSOR * processors)))
    part_bytes = max(1, min(_MOST_PART, of_memory, in_stores // 4 // processors) // form.size)
    part_bytes = min(part_bytes, -(-least // form.size)) * form.size
    parts = -(-total // part_bytes)
    if 2 * total <= in_stores:
        return Plan(part_bytes, parts, partitions, 1, max(total, 1))
    of_wave = max(1, min(in_stores // 4 // part_bytes, _OF_WAVE * processors))
    return Plan(part_bytes, parts, partitions, -(-parts // of_wave), of_wave * part_bytes)


class Rates(NamedTuple):
    """What a model of a sort knows of machines: bytes that a processor reads, sorts and puts into the store in a
    second, that it merges, and that it carries to another node; that a disk and the network of a node move; seconds of
    a processor for a task, and of the program that calls sort() for a task and for an object."""

    map: float = 770e6
    merge: float = 1.2e9
    carry: float = 600e6
    disk: float = 1e9
    network: float = 1e9
    task: float = 0.002
    started: float = 0.0005
    object: float = 0.00003


class Stage(NamedTuple):
    """The seconds of each thing that a stage waits for: the largest number binds."""

    processors: float
    disks: float
    network: float
    caller: float

    @property
    def seconds(self) -> float:
        return max(self)

    @property
    def limit(self) -> str:
        return self._fields[self.index(max(self))]


class Estimate(NamedTuple):
    """What a sort would take: how it is divided, its stages, seconds in all, and its price."""

    plan: Plan
    mapping: Stage
    writing: Stage
    seconds: float
    price: float


def estimate(
    total: int,
    *,
    nodes: int,
    processors: int,
    store: int,
    memory: int = 512 << 20,
    record: int = 100,
    partitions: int = 0,
    rates: Rates = Rates(),
    price: float = 0.0,
) -> Estimate:
    """What sort() of `total` bytes would take on other machines, by a model of its stages.

    nodes: of so many processors each, with a store of so many bytes. memory, record, partitions: as for sort().
    rates: of one of them; inputs and outputs go over the same disks. price: of a node for an hour.
    Neighbouring tasks overlap; a stage takes as long as what it uses most. Nothing is asked of Ray.
    """
    if min(nodes, processors, store, memory, record) < 1 or min(total, partitions) < 0:
        raise ValueError("there are nodes, with processors, a store and memory, and records")
    there = Cluster([str(node) for node in range(nodes)], nodes * processors, store, 0.0)
    plan = plan_of(there, total, RecordForm(record, []), memory, partitions)
    each = total / nodes
    carried = each * (nodes - 1) / nodes
    folders = plan.waves > 1
    merges = plan.waves * nodes if folders else 0
    mapping = Stage(
        (each * (1 / rates.map + folders / rates.merge) + carried / rates.carry) / processors
        + rates.task * (plan.parts + merges) / (nodes * processors),
        each * (1 + folders) / rates.disk,
        carried / rates.network,
        rates.started * (plan.parts + merges) + rates.object * plan.parts * (nodes + 1),
    )
    writing = Stage(
        each / processors / rates.merge + rates.task * plan.partitions / (nodes * processors),
        each * (1 + folders) / rates.disk,
        0.0,
        rates.started * plan.partitions + (0 if folders else rates.object * plan.parts * plan.partitions),
    )
    seconds = mapping.seconds + writing.seconds
    return Estimate(plan, mapping, writing, seconds, price * nodes * seconds / 3600)
