"""What is sorted beyond one machine: records of one length, or lines. Tasks do the same with both."""

from __future__ import annotations

import os
import random
from typing import Any, Iterator, NamedTuple, Sequence

import numpy as np
import numpy.typing as npt

from . import _core
from ._keys import Key
from ._storage import Stamp, Storage

Bytes = npt.NDArray[np.uint8]
_AT_ONCE = 4 << 20  # of a file that is read through
_HOT = 1 << 20
_LEAST_OF_RUN = 1 << 20  # of memory, for each run of a merge


class Piece(NamedTuple):
    """Whole records of an input, `size` bytes from byte `offset` on; the last line may lack its newline."""

    input: int
    path: str
    stamp: Stamp
    offset: int
    size: int
    newline: bool = False  # is missing

    @property
    def room(self) -> int:
        return self.size + self.newline


class Border(NamedTuple):
    """The first record of a partition: its keys, or a line, its part, and where it begins there, in bytes. Equal
    records that come before it in the inputs belong to the partition in front. Of a line that was cut off, which no
    record need be equal to, the place is -1."""

    record: bytes
    part: int
    place: int


class Summary(NamedTuple):
    """Of some records: how many, their sum, which no order changes, and the keys of the first and the last."""

    records: int
    sum: int
    first: str
    last: str


def _spread(number: int, end: int, wanted: int) -> Iterator[int]:
    """Some of the places from 0 to `end`, spread over them, the same ones for the same part."""
    chance = random.Random(number)
    some = min(end, wanted)
    for i in range(some):
        yield min(end - 1, int((i + chance.random()) * end / some))


class _Reader:
    """Bytes of a part, wherever its pieces lie."""

    def __init__(self, storage: Storage, pieces: Sequence[Piece]) -> None:
        self._storage, self._pieces = storage, pieces
        self._ends = np.cumsum([piece.size for piece in pieces])

    def piece(self, place: int) -> int:
        return int(np.searchsorted(self._ends, place, "right"))

    def begin(self, piece: int) -> int:
        return int(self._ends[piece]) - self._pieces[piece].size

    def end(self, piece: int) -> int:
        return int(self._ends[piece])

    def read(self, place: int, size: int) -> bytes:
        """From one piece."""
        at = self.piece(place)
        to = np.empty(size, np.uint8)
        self._storage.read_into(self._pieces[at].path, self._pieces[at].offset + place - self.begin(at), to)
        return to.tobytes()


class RecordForm(NamedTuple):
    """Records of so many bytes, their keys, and their dtype where they are integers, which are sorted in place."""

    size: int
    keys: list[Key]
    integer: str = ""
    kind: int = 0
    descending: bool = False

    @property
    def at_once(self) -> int:
        """Bytes to read and sum together, while they are in the caches; 0: all."""
        return max(1, _HOT // self.size) * self.size

    def memory(self) -> float:
        """Bytes that a task has for each of a part: it, the same sorted, and leading bits with places."""
        return 2.0 if self.integer else 2 + 34 / self.size

    def cut(self, storage: Storage, path: str, at: int, end: int) -> int:
        return at

    def whole(self, storage: Storage, path: str, end: int) -> bool:
        return True

    def sample(self, storage: Storage, number: int, pieces: Sequence[Piece], wanted: int, most: int) -> list[Border]:
        reader = _Reader(storage, pieces)
        places = _spread(number, sum(piece.size for piece in pieces) // self.size, wanted)
        return [
            Border(self._keys_in(reader.read(place * self.size, self.size)), number, place * self.size)
            for place in places
        ]

    def _keys_in(self, record: bytes) -> bytes:
        """One behind the other: what is sampled is no longer than that."""
        return b"".join(record[offset : offset + length] for offset, length, *_ in self.keys)

    def _with_keys(self, borders: Sequence[Border]) -> Bytes:
        """Records with the keys of borders, and zeros."""
        records, at = np.zeros((len(borders), self.size), np.uint8), 0
        keys = np.frombuffer(b"".join(one.record for one in borders), np.uint8).reshape(len(borders), -1)
        for offset, length, *_ in self.keys:
            records[:, offset : offset + length] = keys[:, at : at + length]
            at += length
        return records.reshape(-1)

    def order(self, samples: Sequence[Border]) -> list[int]:
        """The places of the samples, which come in the order of the inputs, in that of their keys."""
        if not samples:
            return []
        # Each with its place, which comes back when the keys have been sorted.
        begins = np.cumsum([0] + [length for _, length, *_ in self.keys]).tolist()
        keys = [(begin, *key[1:]) for begin, key in zip(begins, self.keys)]
        rows = np.empty((len(samples), begins[-1] + 8), np.uint8)
        rows[:, :-8] = np.frombuffer(b"".join(one.record for one in samples), np.uint8).reshape(len(samples), -1)
        rows[:, -8:] = np.arange(len(samples), dtype="<u8").reshape(-1, 1).view(np.uint8)
        _core.sort_records(rows, begins[-1] + 8, len(samples), keys, rows, False, 1)
        return rows[:, -8:].copy().view("<u8").reshape(-1).tolist()

    def summary(self, records: Bytes) -> Summary:
        if not records.size:
            return Summary(0, 0, "", "")
        first, last = self._key(records[: self.size]), self._key(records[-self.size :])
        return Summary(records.size // self.size, _core.sum_records(records, self.size), first, last)

    def divide(self, number: int, records: Bytes, borders: Sequence[Border], out: Any) -> tuple[Bytes, list[int]]:
        """The records sorted, in themselves or in out(bytes), and where each partition begins and ends."""
        size = self.size
        # Of equal records, those that come before a border in its own part.
        equal = {
            at: _core.count_equal(records[: border.place], size, self.keys, self._with_keys([border]))
            for at, border in enumerate(borders)
            if border.part == number
        }
        if self.integer:
            numbers = records.view(self.integer)
            _core.sort_rows(numbers, self.kind, max(1, numbers.size), self.descending, 1)
        else:
            to = out(records.size)
            _core.sort_to_array([records], size, self.keys, to)
            records = to
        ranks, some = [], max(1, _AT_ONCE // size)
        for at in range(0, len(borders), some):
            ranks += _core.ranks(records, size, self.keys, self._with_keys(borders[at : at + some]))
        cuts = [0]
        for at, (before, up_to) in enumerate(ranks):
            cuts.append(before + equal[at] if at in equal else up_to if number < borders[at].part else before)
        cuts.append(records.size // size)
        return records, [cut * size for cut in cuts]

    def memory_of_merge(self, memory: int) -> int:
        """What merge() takes beside the arrays, as Ray counts it."""
        return 0

    def merge(self, arrays: Sequence[Bytes], names: Sequence[str], path: str, memory: int, last: bool) -> Summary:
        """Merges sorted arrays, and sorted files behind them, to a new file. That of the `last` merge is on the disk and
        has a summary."""
        most = max(2, memory // _LEAST_OF_RUN)
        while len(names) > most:
            names = [self._longer(names[at : at + most], memory) for at in range(0, len(names), most)]
        total = _core.merge_to_file(arrays, names, self.size, self.keys, path, last, memory)
        size = os.path.getsize(path)
        if not size or not last:
            return Summary(0, 0, "", "")
        with open(path, "rb") as file:
            first_key = self._key(file.read(self.size))
            file.seek(size - self.size)
            return Summary(size // self.size, total, first_key, self._key(file.read(self.size)))

    def _longer(self, names: Sequence[str], memory: int) -> str:
        """Merges some files to one, which takes their place."""
        longer = f"{names[0]}.{len(names)}"
        _core.merge_to_file([], names, self.size, self.keys, longer, False, memory)
        for name in names:
            os.unlink(name)
        return longer

    def summary_of_file(self, path: str) -> Summary:
        found = [Summary(0, 0, "", "")]
        with open(path, "rb", buffering=0) as file:
            while some := file.read(max(1, _AT_ONCE // self.size) * self.size):
                found.append(self.summary(np.frombuffer(some, np.uint8)))
        return joined(found)

    def rest(self, path: str) -> int:
        """The bytes behind the last whole record of a file."""
        return os.path.getsize(path) % self.size

    def disorder(self, path: str, memory: int) -> int | None:
        """The number of the first record that belongs before the one in front of it."""
        count = os.path.getsize(path) // self.size
        place = _core.check_record_file(path, 0, count, self.size, self.keys, False, min(memory, 64 << 20), None)
        return place if place < count else None

    def before(self, left: str, right: str) -> bool:
        """Whether a record with the keys `left`, as a Summary has them, belongs before one with the keys `right`."""
        records = np.zeros((2, self.size), np.uint8)
        for record, text in zip(records, (left, right)):
            for (offset, length, *_), part in zip(self.keys, text.split()):
                record[offset : offset + length] = np.frombuffer(bytes.fromhex(part), np.uint8)
        return _core.ranks(records[0], self.size, self.keys, records[1])[0][0] > 0

    def _key(self, record: Any) -> str:
        """The bytes of the keys, in hexadecimal."""
        content = bytes(record)
        return " ".join(content[offset : offset + length].hex() for offset, length, *_ in self.keys)


class LineForm(NamedTuple):
    """Lines, in the order of their keys: these, letters for all of them, separator, and whether it is CSV (never)."""

    order_of: tuple[list[str], str, str, bool]
    stable: bool
    size: int = 1
    at_once: int = 0

    def memory(self) -> float:
        """Bytes that a task has for each of a part: it, the same sorted, and places and keys of lines."""
        return 6.0

    def cut(self, storage: Storage, path: str, at: int, end: int) -> int:
        """Where the first line begins that does not begin before `at`."""
        if at == 0:
            return 0
        at -= 1
        while at < end:
            some = np.empty(min(1 << 16, end - at), np.uint8)
            storage.read_into(path, at, some)
            found = some.tobytes().find(b"\n")
            if found >= 0:
                return at + found + 1
            at += some.size
        return end

    def whole(self, storage: Storage, path: str, end: int) -> bool:
        """Whether the last line of a file has its newline."""
        last = np.empty(1, np.uint8)
        storage.read_into(path, end - 1, last)
        return bool(last[0] == ord("\n"))

    def sample(self, storage: Storage, number: int, pieces: Sequence[Piece], wanted: int, most: int) -> list[Border]:
        """Lines in which bytes lie that are spread over the part; long ones are taken sooner, and once. `most` bytes of each."""
        reader = _Reader(storage, pieces)
        found = {}
        for place in _spread(number, sum(piece.size for piece in pieces), wanted):
            at = reader.piece(place)
            begin = self._begin(reader, reader.begin(at), place)
            if begin not in found:
                line = self._line(reader, begin, min(reader.end(at), begin + most + 1))
                found[begin] = Border(line[:most], number, -1 if len(line) > most else begin)
        # A newline that lacked is there when the part is read.
        missing = np.cumsum([0] + [piece.newline for piece in pieces])
        return [
            one if one.place < 0 else one._replace(place=begin + int(missing[reader.piece(begin)]))
            for begin, one in sorted(found.items())
        ]

    @staticmethod
    def _begin(reader: _Reader, first: int, place: int) -> int:
        """Of the line that a byte belongs to."""
        while place > first:
            size = min(1 << 12, place - first)
            found = reader.read(place - size, size).rfind(b"\n")
            if found >= 0:
                return place - size + found + 1
            place -= size
        return first

    @staticmethod
    def _line(reader: _Reader, begin: int, end: int) -> bytes:
        line = b""
        while begin < end:
            some = reader.read(begin, min(1 << 12, end - begin))
            head, newline, _ = some.partition(b"\n")
            line += head
            if newline:
                break
            begin += len(some)
        return line

    def order(self, samples: Sequence[Border]) -> list[int]:
        return _core.argsort_lines([one.record for one in samples], self.order_of, self.stable)

    def summary(self, text: Bytes) -> Summary:
        if not text.size:
            return Summary(0, 0, "", "")
        lines, total, first, last = _core.sum_lines(text)
        return Summary(lines, total, first.hex(), last.hex())

    def divide(self, number: int, text: Bytes, borders: Sequence[Border], out: Any) -> tuple[Bytes, list[int]]:
        to = out(text.size)
        places = [border.place if border.part == number else -1 if border.part < number else -2 for border in borders]
        cuts = _core.sort_lines(text, self.order_of, self.stable, [border.record for border in borders], places, to)
        # Lines that are the same to the last byte come in any order where the order is not stable, and so may borders.
        return to, [0, *np.maximum.accumulate(np.array(cuts, np.int64)).tolist(), text.size]

    def memory_of_merge(self, memory: int) -> int:
        return memory

    def merge(self, arrays: Sequence[Bytes], names: Sequence[str], path: str, memory: int, last: bool) -> Summary:
        """Of arrays alone in memory, if it is enough; lines that are sorted already are sorted once more then."""
        total = sum(one.size for one in arrays)
        if names or total * self.memory() > memory:
            mine = [f"{path}.{number}" for number in range(len(arrays))]
            try:
                for name, one in zip(mine, arrays):
                    one.tofile(name)
                folders, inputs = [os.path.dirname(path)], [*mine, *names]
                _core.sort_line_files(
                    inputs, path, self.order_of, 0, self.stable, False, True, 0, memory, folders, 1, None
                )
            finally:
                for name in mine:
                    if os.path.exists(name):
                        os.unlink(name)
            return self.summary_of_file(path) if last else Summary(0, 0, "", "")
        text, to = np.concatenate([np.empty(0, np.uint8), *arrays]), np.empty(total, np.uint8)
        _core.sort_lines(text, self.order_of, self.stable, [], [], to)
        with open(path, "wb", buffering=0) as file:
            rest = memoryview(to)
            while rest:
                rest = rest[os.write(file.fileno(), rest) :]
            if last:
                os.fsync(file.fileno())
        return self.summary(to)

    def summary_of_file(self, path: str) -> Summary:
        found, rest = [Summary(0, 0, "", "")], b""
        with open(path, "rb", buffering=0) as file:
            while some := file.read(_AT_ONCE):
                whole, newline, rest = (rest + some).rpartition(b"\n")
                if newline:
                    found.append(self.summary(np.frombuffer(whole + newline, np.uint8)))
        if rest:
            found.append(self.summary(np.frombuffer(rest + b"\n", np.uint8)))
        return joined(found)

    def rest(self, path: str) -> int:
        """What lacks its newline."""
        at = end = os.path.getsize(path)
        with open(path, "rb", buffering=0) as file:
            while at > 0:
                size = min(_AT_ONCE, at)
                newline = os.pread(file.fileno(), size, at - size).rfind(b"\n")
                if newline >= 0:
                    return end - (at - size + newline + 1)
                at -= size
        return end

    def disorder(self, path: str, memory: int) -> int | None:
        found = _core.check_line_files([path], self.order_of, 0, False, min(memory, 64 << 20), 1, None)
        return None if found is None else found[1] - 1

    def before(self, left: str, right: str) -> bool:
        lines = [bytes.fromhex(right), bytes.fromhex(left)]
        return _core.argsort_lines(lines, self.order_of, self.stable) == [1, 0]


def joined(some: Sequence[Summary]) -> Summary:
    """Of one behind the other."""
    there = [one for one in some if one.records] or [Summary(0, 0, "", "")]
    return Summary(
        sum(one.records for one in there), sum(one.sum for one in there) % 2**64, there[0].first, there[-1].last
    )
