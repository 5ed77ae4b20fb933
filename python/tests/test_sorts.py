"""Sorts of files, and of what memory does not hold."""

import contextlib
import datetime
import errno
import os
import subprocess
import sys
import types

import numpy as np
import pytest

import vortex

MIB = 1 << 20
MEMORY = 16 * MIB


@pytest.mark.parametrize("size", [0, 1, 1000, 4 * MIB])
def test_raw_numbers(rng, tmp_path, size):
    a = rng.integers(-(1 << 60), 1 << 60, size)
    a.tofile(tmp_path / "in")
    report = vortex.sort_file(tmp_path / "in", tmp_path / "out", dtype=np.int64, memory=MEMORY)
    assert (np.fromfile(tmp_path / "out", np.int64) == np.sort(a)).all()
    assert report.records_in == report.records_out == size and (report.runs > 0) == (size > MIB)
    assert sorted(os.listdir(tmp_path)) == ["in", "out"]


def test_structures_in_place_of_themselves(rng, tmp_path):
    dtype = np.dtype([("id", ">u4"), ("name", "S6"), ("value", "f8")])
    a = np.frombuffer(rng.bytes(20000 * dtype.itemsize), dtype).copy()
    a["id"] %= 50
    a["value"] = rng.standard_normal(a.size)
    a.tofile(tmp_path / "rows")
    vortex.sort_file(tmp_path / "rows", tmp_path / "rows", dtype=dtype, key=["id", "value"], memory=MEMORY)
    order = np.lexsort((a["value"], a["id"]))
    assert (tmp_path / "rows").read_bytes() == a[order].tobytes()
    vortex.sort_file(tmp_path / "rows", tmp_path / "one", dtype=dtype, key="id", unique=True, descending=True)
    assert (np.fromfile(tmp_path / "one", dtype)["id"] == np.unique(a["id"])[::-1]).all()


def test_records_by_places(rng, tmp_path):
    records = [rng.bytes(100) for _ in range(5000)]
    (tmp_path / "in").write_bytes(b"".join(records))
    vortex.sort_file(tmp_path / "in", tmp_path / "out", record=100, key="10:4:u32be", memory=MEMORY)
    assert (tmp_path / "out").read_bytes() == b"".join(sorted(records, key=lambda r: r[10:14]))


@pytest.mark.parametrize("size", [0, 1000, 3 * MIB])
def test_npy(rng, tmp_path, size):
    a = rng.integers(0, 1 << 60, size)
    np.save(tmp_path / "in.npy", a)
    report = vortex.sort_file(tmp_path / "in.npy", tmp_path / "out.npy", memory=MEMORY)
    assert (np.load(tmp_path / "out.npy") == np.sort(a)).all() and report.records_in == size
    vortex.sort_file(tmp_path / "in.npy", tmp_path / "raw", memory=MEMORY, descending=True)
    assert (np.fromfile(tmp_path / "raw", np.int64) == np.sort(a)[::-1]).all()
    assert sorted(os.listdir(tmp_path)) == ["in.npy", "out.npy", "raw"]


def test_lines_as_sort_does(rng, tmp_path):
    lines = [f"{rng.integers(0, 50)} {rng.integers(-99, 99)} {rng.bytes(4).hex()}" for _ in range(3000)]
    (tmp_path / "in").write_text("\n".join(lines) + "\n")
    gnu = ["sort", "-k2,2n", "-k1,1", tmp_path / "in"]
    expected = subprocess.run(gnu, stdout=subprocess.PIPE, check=True, env={**os.environ, "LC_ALL": "C"}).stdout
    vortex.sort_file(tmp_path / "in", tmp_path / "out", record="lines", key=["2,2n", "1,1"])
    assert (tmp_path / "out").read_bytes() == expected
    vortex.sort_file(tmp_path / "in", tmp_path / "out", record="lines", descending=True)
    assert (tmp_path / "out").read_text().splitlines() == sorted(lines, reverse=True)


@pytest.mark.parametrize("letters", ["", "n", "r", "nr"])
@pytest.mark.parametrize("keys", [["2,2n"], ["2n,2"], ["1,1", "2,2nr"], ["1,1r", "2"], ["2,2"], []])
def test_descending_turns_every_key_round(rng, tmp_path, keys, letters):
    lines = [f"{rng.integers(0, 20)} {rng.integers(-99, 99)}" for _ in range(500)]
    (tmp_path / "in").write_text("\n".join(lines) + "\n")

    def turned(letters):
        return letters.replace("r", "") if "r" in letters else letters + "r"

    own = [set(filter(str.isalpha, key)) for key in keys]
    arguments = {"record": "lines", "key": keys, "letters": letters, "descending": True}
    if {"r"} in own:
        with pytest.raises(ValueError, match="leave both out"):
            vortex.sort_file(tmp_path / "in", tmp_path / "out", **arguments)
        return
    options = [f"-{one}" for one in turned(letters)]
    options += [f"-k{turned(key) if mine else key}" for key, mine in zip(keys, own)]
    expected = subprocess.run(["sort", *options, tmp_path / "in"], stdout=subprocess.PIPE, check=True,
                              env={**os.environ, "LC_ALL": "C"}).stdout  # fmt: skip
    vortex.sort_file(tmp_path / "in", tmp_path / "out", **arguments)
    assert (tmp_path / "out").read_bytes() == expected


def test_descending_columns(tmp_path):
    (tmp_path / "in.csv").write_text("name,price\nb,20\nd,3\na,100\n")
    for key, letters in (("price:n", ""), ("2n", ""), ("price", "n")):
        vortex.sort_file(tmp_path / "in.csv", tmp_path / "out.csv", record="csv", header=1, key=key, letters=letters,
                         descending=True)  # fmt: skip
        assert (tmp_path / "out.csv").read_text() == "name,price\na,100\nb,20\nd,3\n"


@pytest.mark.parametrize("record", ["lines", "csv"])
def test_separators_are_one_byte(tmp_path, record):
    (tmp_path / "in").write_text("a;2\nb;1\n")
    for separator in ("", "; ", "::", "\N{SECTION SIGN}"):
        with pytest.raises(ValueError, match="one byte"):
            vortex.sort_file(tmp_path / "in", tmp_path / "out", record=record, separator=separator, key="2", header=1)
    vortex.sort_file(tmp_path / "in", tmp_path / "out", record=record, separator=";", key="2")
    assert (tmp_path / "out").read_text() == "b;1\na;2\n"


def test_npy_files_are_sorted_with_their_like(tmp_path):
    np.save(tmp_path / "a.npy", np.arange(100)[::-1])
    np.save(tmp_path / "b.npy", np.arange(50).reshape(5, 10))
    np.save(tmp_path / "other.npy", np.arange(5, dtype="u4"))
    np.arange(100).tofile(tmp_path / "raw")
    a, b, other, raw = (tmp_path / name for name in ("a.npy", "b.npy", "other.npy", "raw"))
    for source, arguments in ((a, {"dtype": "i8"}), (a, {"record": 8}), (a, {"unique": True}), ([a, other], {}),
                              ([raw, a], {"dtype": "i8"})):  # fmt: skip
        with pytest.raises(ValueError, match="a.npy: .*header"):
            vortex.sort_file(source, tmp_path / "out", **arguments)
    # As many elements as make 0 bytes, for who wraps at 2^64.
    with open(tmp_path / "other.npy", "wb") as file:
        np.lib.format.write_array_header_1_0(file, {"descr": "<f8", "fortran_order": False, "shape": (1 << 61,)})
    with pytest.raises(OSError, match="other.npy"):
        vortex.sort_file(other, tmp_path / "out.npy")
    report = vortex.sort_file([a, b], tmp_path / "out.npy")
    assert (np.load(tmp_path / "out.npy") == np.sort([*range(100), *range(50)])).all() and report.records_in == 150
    assert sorted(os.listdir(tmp_path)) == ["a.npy", "b.npy", "other.npy", "out.npy", "raw"]


def test_raw_records_get_no_name_of_npy_files(tmp_path):
    np.arange(9).tofile(tmp_path / "raw")
    for how in ({"dtype": "i8"}, {"record": 8}):
        with pytest.raises(ValueError, match="out.npy: .*header"):
            vortex.sort_file(tmp_path / "raw", tmp_path / "out.npy", **how)
    assert os.listdir(tmp_path) == ["raw"]


@pytest.mark.parametrize("call", [vortex.sort_file, vortex.merge])
def test_npy_files_that_change_meanwhile(tmp_path, monkeypatch, call):
    """Behind their headers, and while they are merged."""
    names = [tmp_path / "a.npy", tmp_path / "b.npy"]
    for name in names:
        np.save(name, np.arange(100))
        os.utime(name, (1, 1))
    header = vortex._sort_forms.npy_header

    def changing(name):
        found = header(name)
        np.save(name, np.arange(100)[::-1])
        return found

    with monkeypatch.context() as patch, pytest.raises(OSError) as caught:
        patch.setattr(vortex._sort_forms, "npy_header", changing)
        call(names, tmp_path / "out.npy")
    assert (caught.value.errno, caught.value.filename) == (errno.EBUSY, str(names[0]))
    if call is vortex.merge:
        with pytest.raises(OSError) as caught:
            call(names, tmp_path / "out.npy", progress=lambda *_: os.utime(names[1], (2, 2)))
        assert (caught.value.errno, caught.value.filename) == (errno.EBUSY, str(names[1]))
    assert not (tmp_path / "out.npy").exists()


KINDS = {
    "raw": {"dtype": "i8"},
    "records": {"record": 8, "key": "0:8:i64:desc"},
    "npy": {"descending": True},
    "lines": {"record": "lines", "key": "1n"},
    "csv": {"record": "csv", "header": 1, "key": "n:n"},
}


def write_sorted(path, kind, numbers):
    numbers = np.sort(numbers)[:: -1 if kind in ("records", "npy") else 1]
    if kind == "npy":
        with open(path, "wb") as file:
            np.save(file, numbers)
    elif kind in ("raw", "records"):
        numbers.tofile(path)
    else:
        path.write_text("n\n" * (kind == "csv") + "".join(f"{one}\n" for one in numbers))


@pytest.mark.parametrize("kind", KINDS)
def test_merge_and_check(rng, tmp_path, kind):
    parts = [rng.integers(-1000, 1000, size) for size in (3000, 0, 1, 500)]
    names = [tmp_path / f"part{at}" for at in range(len(parts))]
    for name, part in zip(names, parts):
        write_sorted(name, kind, part)
    assert vortex.check(names, **KINDS[kind]) is None
    report = vortex.merge(names, tmp_path / "merged", **KINDS[kind])
    assert report.records_out == 3501
    write_sorted(tmp_path / "expected", kind, np.concatenate(parts))
    if kind == "npy":
        np.load(tmp_path / "expected").tofile(tmp_path / "expected")
    assert (tmp_path / "merged").read_bytes() == (tmp_path / "expected").read_bytes()
    # The first record of a part that is not sorted is told; those before it are looked at by themselves.
    wrong = np.array([1, 2, 2, 5, 4, 9])
    if kind in ("records", "npy"):
        wrong = wrong[::-1].copy()
    if kind == "npy":
        with open(tmp_path / "wrong", "wb") as file:
            np.save(file, wrong)
    elif kind in ("raw", "records"):
        wrong.tofile(tmp_path / "wrong")
    else:
        (tmp_path / "wrong").write_text("n\n" * (kind == "csv") + "".join(f"{one}\n" for one in wrong))
    place = {"raw": 4, "lines": 4, "csv": 5, "records": 2, "npy": 2}[kind]
    found = vortex.check([names[0], tmp_path / "wrong"], **KINDS[kind])
    assert found == (str(tmp_path / "wrong"), place)
    if kind != "npy":
        place = {"raw": 2, "lines": 2, "csv": 3, "records": 2}[kind]
        assert vortex.check(tmp_path / "wrong", unique=True, **KINDS[kind]).record == place


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("first", [1, 1000, 3500, 5000])
def test_the_first_records(rng, tmp_path, kind, first):
    numbers = rng.integers(-1000, 1000, 3501)
    parts = np.split(numbers, [3000, 3000])
    names = [tmp_path / f"part{at}" for at in range(len(parts))]
    for name, part in zip(names, parts):
        write_sorted(name, kind, part)
    wanted = np.sort(numbers * (-1 if kind in ("records", "npy") else 1))[:first]
    write_sorted(tmp_path / "expected", kind, wanted * (-1 if kind in ("records", "npy") else 1))
    if kind == "npy":
        np.load(tmp_path / "expected").tofile(tmp_path / "expected")
    for call in (vortex.sort_file, vortex.merge):
        report = call(names, tmp_path / "out", first=first, **KINDS[kind])
        assert report.records_out == len(wanted)
        assert (tmp_path / "out").read_bytes() == (tmp_path / "expected").read_bytes()
    if kind == "npy":
        vortex.sort_file(names, tmp_path / "out.npy", first=np.int32(first), descending=True)
        assert (np.load(tmp_path / "out.npy") == -wanted).all()
    for none in (0, -1):
        with pytest.raises(ValueError, match="first"):
            vortex.sort_file(names, tmp_path / "out", first=none, **KINDS[kind])
    assert vortex.sort_file(names, tmp_path / "out", first=1 << 70, **KINDS[kind]).records_out == len(numbers)


@pytest.mark.parametrize("first", [10, MIB])
def test_the_first_of_more_than_memory(rng, first):
    a = rng.integers(0, 1 << 60, 3 * MIB)
    sorter = vortex.Sorter(np.int64, memory=MEMORY, first=first)
    for part in np.array_split(a, 5):
        sorter.push(part)
    assert len(sorter) == a.size
    assert (np.concatenate(list(sorter)) == np.sort(a)[:first]).all() and len(sorter) == first


@pytest.mark.parametrize("dtype", ["f8", ">i2", [("key", "S3"), ("place", "i4")]])
def test_npy_files_are_merged(rng, tmp_path, dtype):
    """Also NaNs of both signs and zeros, in the order of files, and records across blocks."""
    dtype = np.dtype(dtype)
    bits = rng.integers(0, 256, (3 * MIB // dtype.itemsize + 7, dtype.itemsize), np.uint8)
    bits[: 1 << 16, :2] = 0
    a = np.ascontiguousarray(bits).view(dtype).reshape(-1)
    key = None if dtype.names is None else "key"
    if key:
        a["place"] = np.arange(a.size)
    names = [tmp_path / f"{at}.npy" for at in range(4)]
    for name, part in zip(names, np.array_split(a, [9, 9, a.size // 3])):
        np.save(name, part)
        vortex.sort_file(name, name, key=key)
    report = vortex.merge(names, tmp_path / "out.npy", key=key, memory=MEMORY)
    assert (report.records_in, report.records_out, report.runs) == (a.size, a.size, 0)
    vortex.sort_file(names, tmp_path / "sorted.npy", key=key)
    assert (tmp_path / "out.npy").read_bytes() == (tmp_path / "sorted.npy").read_bytes()
    # So many files that they are sorted.
    report = vortex.merge(names * 40, tmp_path / "many.npy", key=key, first=7, memory=MEMORY)
    assert report.records_in == 40 * a.size
    vortex.sort_file(names * 40, tmp_path / "expected.npy", key=key, first=7)
    assert (tmp_path / "many.npy").read_bytes() == (tmp_path / "expected.npy").read_bytes()
    os.truncate(names[3], os.path.getsize(names[3]) - 1)
    with pytest.raises(OSError) as caught:
        vortex.merge(names, tmp_path / "cut.npy", key=key)
    assert caught.value.errno == errno.ENODATA and caught.value.filename == str(names[3])
    assert not (tmp_path / "cut.npy").exists()


def test_checks_of_files_larger_than_memory(rng, tmp_path):
    a = np.sort(rng.integers(0, 1 << 60, 3 * MIB))
    place = int(rng.integers(1, a.size))
    a.tofile(tmp_path / "in")
    calls = []
    arguments = {"dtype": "i8", "memory": 8 * MIB, "progress": lambda *call: calls.append(call)}
    assert vortex.check(tmp_path / "in", **arguments) is None and calls[0][0] == "reading"
    a[place] = a[place - 1] - 1
    a.tofile(tmp_path / "in")
    assert vortex.check(tmp_path / "in", **arguments) == (str(tmp_path / "in"), place)
    with open(tmp_path / "in", "ab") as file:
        file.write(b"x")
    with pytest.raises(OSError, match="multiple") as caught:
        vortex.check(tmp_path / "in", **arguments)
    assert caught.value.errno == errno.EINVAL


@pytest.mark.parametrize("off", ["", "1"])
def test_progress_by_the_real_tqdm(rng, tmp_path, off):
    pytest.importorskip("tqdm", reason="tqdm is not installed")
    rng.integers(0, 1 << 60, MIB).tofile(tmp_path / "in")
    program = "import sys, vortex; vortex.sort_file(*sys.argv[1:], dtype='i8', progress=True)"
    said = subprocess.run([sys.executable, "-c", program, tmp_path / "in", tmp_path / "out"], check=True,
                          env={**os.environ, "TQDM_DISABLE": off}, stderr=subprocess.PIPE, text=True).stderr  # fmt: skip
    assert any(phase in said for phase in ("reading", "merging", "writing")) == (not off)


@pytest.mark.parametrize("npy", [False, True])
def test_partition(rng, tmp_path, npy):
    a = np.zeros(200_000, [("key", "f8"), ("place", "i8")])
    a["key"], a["place"] = rng.normal(size=a.size).round(2), np.arange(a.size)
    a["key"][rng.random(a.size) < 0.01] = np.nan
    if npy:
        np.save(tmp_path / "in.npy", a)
    else:
        a.tofile(tmp_path / "in.npy")
    splitters, seen = [-1.0, 0.0, 0.5], []
    names = [tmp_path / f"part{at}" for at in range(4)]
    counts = vortex.partition(tmp_path / "in.npy", names, splitters, dtype=None if npy else a.dtype, key="key",
                              memory=1 << 20, progress=lambda *call: seen.append(call))  # fmt: skip
    assert len(seen) > 1 and seen == sorted(seen) and seen[-1] == ("writing", a.nbytes, a.nbytes)
    part = np.searchsorted(splitters, a["key"], "right")
    assert counts == np.bincount(part).tolist()
    for at, name in enumerate(names):
        assert (np.fromfile(name, a.dtype)["place"] == a["place"][part == at]).all()
    for splitters, words in (([1, 0, 2], "sorted"), ([1.0], "2 files"), ([0, np.nan, 1], "sorted"), ([0, 0, 1e400], None)):
        with pytest.raises(ValueError, match=words) if words else contextlib.nullcontext():
            vortex.partition(tmp_path / "in.npy", names, splitters, dtype=None if npy else a.dtype, key="key")


def test_partition_by_several_fields(rng, tmp_path):
    a = np.zeros(50_000, [("name", "S2"), ("place", "i8"), ("value", "f4")])
    a["name"], a["place"] = rng.choice([b"a", b"b", b"c"], a.size), np.arange(a.size)
    a["value"] = rng.choice([-1, -0.0, 0, 1, np.nan], a.size)
    a.tofile(tmp_path / "in")
    splitters = [(b"a", np.nan), (b"b", 0.0), (b"b", 0.0), (b"c", -1.0)]
    names = [tmp_path / f"part{at}" for at in range(5)]
    rank = {b"a": 0, b"b": 1, b"c": 2}
    keys = [(rank[name], np.inf if value != value else value) for name, value in zip(a["name"].tolist(), a["value"].tolist())]
    borders = [(rank[name], np.inf if value != value else value) for name, value in splitters]
    part = np.array([sum(border <= key for border in borders) for key in keys])
    fields = np.array(splitters, [("value", "f8"), ("name", "S1")][::-1])
    for given in (splitters, fields):
        counts = vortex.partition(tmp_path / "in", names, given, dtype=a.dtype, key=["name", "value"], memory=1 << 20,
                                  threads=2)  # fmt: skip
        assert counts == np.bincount(part, minlength=5).tolist()
        for at, name in enumerate(names):
            assert (np.fromfile(name, a.dtype)["place"] == a["place"][part == at]).all()
    for wrong, words in (([(b"a", 1), (b"a", 0)], "sorted"), ([(b"a",)], "tuples of 2"), ([b"a"], "tuples of 2"),
                         ([(b"abc", 0)], "no key of"), ([], "1 files")):  # fmt: skip
        with pytest.raises(ValueError, match=words):
            vortex.partition(tmp_path / "in", names, wrong, dtype=a.dtype, key=["name", "value"])


@pytest.mark.parametrize(("dtype", "good", "wrong"), [
    ("i8", [0, 3.0, True], [1.5, np.nan, 1 << 63, 1e30, 1 << 70, "1"]),
    ("u1", [255], [300, -1, 255.5]),
    ("u8", [(1 << 64) - 1], [-1]),
    ("f8", [np.nan, np.inf, 1 << 53], [(1 << 53) + 1, "1"]),
    ("f4", [0.1, np.nan, -np.inf], [1e39, (1 << 24) + 1]),
    ("S4", [b"abcd", "ab", b""], [b"abcde", "abcde", 1]),
    ("U2", ["ab", b"a", "\N{SECTION SIGN}"], ["abc"]),
    ("M8[D]", ["2026-01-01", "NaT", 5, datetime.date(2026, 1, 1)], ["2026-01-01T12:00", datetime.datetime(2026, 1, 1, 12)]),
    ("m8[s]", [np.timedelta64(2000, "ms"), 7], [np.timedelta64(2001, "ms")]),
    ("M8[ns]", ["2026-01-01"], ["9999-12-31", 1 << 63]),
])  # fmt: skip
def test_splitters_are_keys_as_they_are(tmp_path, dtype, good, wrong):
    np.zeros(3, dtype).tofile(tmp_path / "in")
    names = [tmp_path / "a", tmp_path / "b"]
    for one in good:
        assert sum(vortex.partition(tmp_path / "in", names, [one], dtype=dtype)) == 3
    for one in wrong:
        with pytest.raises(ValueError, match="no key of"):
            vortex.partition(tmp_path / "in", names, [one], dtype=dtype)


def test_a_file_has_one_part(tmp_path):
    np.arange(9).tofile(tmp_path / "in")
    (tmp_path / "also").symlink_to(tmp_path)
    for other in ("a", "./a", "also/a"):
        with pytest.raises(ValueError, match="twice"):
            vortex.partition(tmp_path / "in", [tmp_path / "a", f"{tmp_path}/{other}"], [5], dtype="i8")
    assert not (tmp_path / "a").exists()


def test_a_partition_that_fails_leaves_nothing(tmp_path):
    np.arange(100).tofile(tmp_path / "in")
    (tmp_path / "a").write_text("earlier")
    with pytest.raises(FileNotFoundError) as caught:
        vortex.partition(tmp_path / "in", [tmp_path / "a", tmp_path / "none" / "b"], [50], dtype="i8")
    assert caught.value.filename == str(tmp_path / "none" / "b")

    def stop(*call):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        vortex.partition(tmp_path / "in", [tmp_path / "a", tmp_path / "b"], [50], dtype="i8", progress=stop)
    assert sorted(os.listdir(tmp_path)) == ["a", "in"] and (tmp_path / "a").read_text() == "earlier"


def test_parts_appear_together(tmp_path):
    np.arange(10).tofile(tmp_path / "in")
    (tmp_path / "low").write_text("old")
    (tmp_path / "high").mkdir()
    with pytest.raises(IsADirectoryError):
        vortex.partition(tmp_path / "in", [tmp_path / "low", tmp_path / "high"], [5], dtype="i8")
    assert (tmp_path / "low").read_text() == "old"
    (tmp_path / "link").symlink_to("low")
    with pytest.raises(ValueError, match="twice"):
        vortex.partition(tmp_path / "in", [tmp_path / "low", tmp_path / "link"], [5], dtype="i8")
    with pytest.raises(OSError) as caught:
        vortex.partition(tmp_path / "in", [tmp_path / "low", tmp_path / "more"], [5], dtype="i8",
                         progress=lambda *_: os.utime(tmp_path / "in", (1, 1)))  # fmt: skip
    assert (caught.value.errno, caught.value.filename) == (errno.EBUSY, str(tmp_path / "in"))
    assert sorted(os.listdir(tmp_path)) == ["high", "in", "link", "low"] and (tmp_path / "low").read_text() == "old"


class Bar:
    """Stands in for tqdm.auto.tqdm, which does not know what it shows when it is switched off."""

    bars = []

    def __init__(self, **arguments):
        self.n, self.total, self.phases, self.closed = 0, None, [], False
        Bar.bars.append(self)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.closed = True

    def reset(self, total):
        self.n, self.total = 0, total

    def set_description(self, phase):
        self.phases.append(phase)

    def update(self, more):
        self.n += more
        assert self.total is None or 0 <= self.n <= self.total


def test_progress_by_tqdm_when_asked_for(rng, tmp_path, monkeypatch):
    rng.integers(0, 1 << 60, 2 * MIB).tofile(tmp_path / "in")
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    with pytest.raises(ImportError, match="pip install tqdm"):
        vortex.sort_file(tmp_path / "in", tmp_path / "out", dtype="i8", progress=True)
    assert os.listdir(tmp_path) == ["in"]
    module = types.ModuleType("tqdm.auto")
    module.tqdm = Bar
    monkeypatch.setitem(sys.modules, "tqdm", types.ModuleType("tqdm"))
    monkeypatch.setitem(sys.modules, "tqdm.auto", module)
    vortex.sort_file(tmp_path / "in", tmp_path / "out", dtype="i8", memory=MEMORY, progress=True)
    (bar,) = Bar.bars
    assert bar.phases and set(bar.phases) <= {"reading", "merging", "writing"} and bar.closed
    assert all(one != other for one, other in zip(bar.phases, bar.phases[1:]))


def test_keys_that_name_nothing(tmp_path):
    dtype = np.dtype([("none", "S0"), ("a", "u4")])
    np.zeros(3, dtype).tofile(tmp_path / "in")
    for key in ([], "none"):
        with pytest.raises(ValueError, match="nothing to sort by"):
            vortex.Sorter(dtype, key)
        with pytest.raises(ValueError, match="nothing to sort by"):
            vortex.sort_file(tmp_path / "in", tmp_path / "out", dtype=dtype, key=key)


def test_csv_by_the_name_of_a_column(tmp_path):
    (tmp_path / "in.csv").write_text('name,price\n"b, c",20\nd,3\n"a\nx",100\n')
    vortex.sort_file(tmp_path / "in.csv", tmp_path / "out.csv", record="csv", header=1, key="price:n")
    assert (tmp_path / "out.csv").read_text() == 'name,price\nd,3\n"b, c",20\n"a\nx",100\n'
    with pytest.raises(ValueError, match="weight"):
        vortex.sort_file(tmp_path / "in.csv", tmp_path / "out.csv", record="csv", header=1, key="weight")


@pytest.mark.parametrize("size", [0, 10, 4 * MIB])
def test_sorter(rng, size):
    a = rng.integers(-(1 << 60), 1 << 60, size)
    sorter = vortex.Sorter(np.int64, memory=MEMORY)
    for part in np.array_split(a, 7):
        sorter.push(part)
    sorter.push(part[:0].astype(np.int8))
    assert len(sorter) == size
    expected, at = np.sort(a), 0
    for block in sorter:
        assert (block == expected[at : at + block.size]).all()
        at += block.size
    assert at == size
    with pytest.raises(ValueError):
        sorter.push(a)
    with pytest.raises(ValueError):
        iter(sorter)


def test_sorters_cast_without_loss():
    sorter = vortex.Sorter(np.float64, memory=MEMORY)
    sorter.push([3, 1 << 60])
    sorter.push(np.array([2.0, np.nan], np.float32))
    for lost in (np.array([2**53 + 1]), np.array([2**63 - 1]), np.array([2**64 - 1], np.uint64), np.array([2**60 + 1])):
        with pytest.raises(TypeError, match="does not hold"):
            sorter.push(lost)
    np.testing.assert_array_equal(np.concatenate(list(sorter)), [2, 3, 1 << 60, np.nan])
    for kind in "Mm":
        times = vortex.Sorter(f"{kind}8[ns]", memory=MEMORY)
        days = np.array([3, -2, np.iinfo(np.int64).min], f"{kind}8[D]")  # the last is NaT
        times.push(days)
        with pytest.raises(TypeError, match="does not hold"):
            times.push(np.array([5, 2_932_896], f"{kind}8[D]"))  # 9999-12-31
        assert (np.sort(np.concatenate(list(times)))[:2] == np.sort(days)[:2]).all()
    pairs = vortex.Sorter(np.dtype([("a", "f8"), ("b", "i8")]), memory=MEMORY)
    pairs.push(np.array([(3, 2)], [("a", "i8"), ("b", "i4")]))
    with pytest.raises(TypeError, match="does not hold"):
        pairs.push(np.array([(2**53 + 1, 2)], [("a", "i8"), ("b", "i8")]))
    with pytest.raises(TypeError, match="fields"):
        pairs.push(np.array([(3, 2)], [("b", "f8"), ("a", "i8")]))
    assert next(iter(pairs)).tolist() == [(3.0, 2)]


def test_names_of_one_hyphen_and_of_bytes(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.array([2, 1], np.uint32).tofile("in")
    vortex.sort_file(b"in", "-", dtype="u4", memory=MEMORY)
    vortex.sort_file("-", b"out", dtype="u4", memory=MEMORY)
    assert np.fromfile("out", np.uint32).tolist() == [1, 2]


def test_sorter_of_structures(rng):
    a = np.zeros(10000, [("k", "i2"), ("v", "u4")])
    a["k"], a["v"] = rng.integers(-9, 9, a.size), np.arange(a.size)
    sorter = vortex.Sorter(a.dtype, key="k", descending=True)
    sorter.push(a)
    got = np.concatenate(list(sorter.blocks(999)))
    np.testing.assert_array_equal(got, a[np.argsort(-a["k"], kind="stable")])
    with pytest.raises(TypeError):
        vortex.Sorter(np.int8).push(np.zeros(3))


def test_errors_name_errno_and_file(tmp_path):
    with pytest.raises(FileNotFoundError) as caught:
        vortex.sort_file(tmp_path / "none", tmp_path / "out", dtype="u4")
    assert caught.value.filename == str(tmp_path / "none")
    (tmp_path / "odd").write_bytes(b"12345")
    with pytest.raises(OSError) as caught:
        vortex.sort_file(tmp_path / "odd", tmp_path / "out", dtype="u4")
    assert caught.value.errno == errno.EINVAL and caught.value.filename == str(tmp_path / "odd")
    (tmp_path / "large").write_bytes(bytes(8 * MIB))
    with pytest.raises(OSError) as caught:
        vortex.sort_file(tmp_path / "large", tmp_path / "out", dtype="u4", memory=1000)
    assert caught.value.errno == errno.ENOMEM
    with pytest.raises(OSError):
        vortex.sort_file(tmp_path / "large", tmp_path / "out", dtype="u4", folders=tmp_path / "no", memory=MEMORY // 4)
    for arguments in ({}, {"dtype": "u4", "record": 4}, {"record": "words"}, {"dtype": "u4", "header": 1}, {"record": 0},
                      {"record": -1}):  # fmt: skip
        with pytest.raises(ValueError):
            vortex.sort_file(tmp_path / "odd", tmp_path / "out", **arguments)
        with pytest.raises(ValueError):
            vortex.check(tmp_path / "odd", **arguments)
    assert sorted(os.listdir(tmp_path)) == ["large", "odd"]


class Stop(Exception):
    pass


def test_progress_may_end_a_sort(rng, tmp_path):
    for name, more in (("raw", {"dtype": "i8"}), ("a.npy", {}), ("text", {"record": "lines"})):
        a = rng.integers(0, 1 << 60, 4 * MIB)
        if name == "text":
            (tmp_path / name).write_bytes(b"\n".join(b"%d" % n for n in a[: MIB // 8]))
        else:
            (np.save if name == "a.npy" else lambda path, x: x.tofile(path))(tmp_path / name, a)
        seen = []

        def progress(phase, done, total):
            seen.append((phase, done, total))
            raise Stop

        with pytest.raises(Stop):
            vortex.sort_file(tmp_path / name, tmp_path / "out", memory=MEMORY, progress=progress, **more)
        assert len(seen) == 1 and seen[0][0] in ("reading", "merging", "writing")
        assert os.listdir(tmp_path) == [name]
        (tmp_path / name).unlink()


INTERRUPTED = """
import os, signal, sys
import numpy as np, vortex
def progress(phase, done, total):
    if phase == sys.argv[3]:
        os.kill(os.getpid(), signal.SIGINT)
def left():
    return sorted(os.listdir("/proc/self/task")), len(os.listdir("/proc/self/fd"))
arguments = {"raw": {"dtype": "i8"}, "text": {"record": "lines"}}[sys.argv[4]]
folder = os.path.dirname(sys.argv[1])
try:
    vortex.sort_file(sys.argv[1], sys.argv[2], memory=16 << 20, progress=progress, **arguments)
except KeyboardInterrupt:
    before = left()
    try:
        vortex.sort_file(sys.argv[1], sys.argv[2], memory=16 << 20, progress=progress, **arguments)
    except KeyboardInterrupt:
        print("interrupted", before == left())
"""


@pytest.mark.parametrize(("phase", "kind"), [("writing", "raw"), ("reading", "text")])
def test_ctrl_c_ends_a_sort(rng, tmp_path, phase, kind):
    a = rng.integers(0, 1 << 60, 3 * MIB if kind == "raw" else MIB // 8)
    (tmp_path / "in").write_bytes(a.tobytes() if kind == "raw" else b"\n".join(b"%d" % n for n in a))
    said = subprocess.run([sys.executable, "-c", INTERRUPTED, tmp_path / "in", tmp_path / "out", phase, kind],
                          stdout=subprocess.PIPE, text=True, check=True).stdout.split()  # fmt: skip
    assert said == ["interrupted", "True"] and os.listdir(tmp_path) == ["in"]


# Enabled behind a sort, and never while a sorter has records: its threads sort them meanwhile, and a fault
# of theirs would be faulthandler's.
AFTER_FAULTHANDLER = """
import faulthandler, os, sys
import numpy as np, vortex
def sums(begin):
    if sys.argv[2] == "sorter":
        sorter = vortex.Sorter(np.int64, memory=16 << 20)
        begin()
        for _ in range(4):
            sorter.push(np.arange(1 << 20))
        return sum(int(part.sum()) for part in sorter)
    begin()
    arguments = {"npy": {}, "raw": {"dtype": np.int64}, "lines": {"record": "lines"}}[sys.argv[2]]
    vortex.sort_file(sys.argv[1], sys.argv[1] + ".out", memory=16 << 20, **arguments)
    return os.path.getsize(sys.argv[1] + ".out")
print(sums(lambda: None), sums(faulthandler.enable))
"""


@pytest.mark.parametrize("kind", ["sorter", "npy", "raw", "lines"])
def test_faulthandler(tmp_path, kind):
    a = np.tile(np.arange(MIB), 4)
    path = tmp_path / "in"
    if kind == "npy":
        with open(path, "wb") as file:
            np.save(file, a)
    elif kind == "lines":
        path.write_bytes(b"1\n22\n" * MIB + b"333\n")
    else:
        a.tofile(path)
    said = subprocess.run([sys.executable, "-c", AFTER_FAULTHANDLER, path, kind],
                          stdout=subprocess.PIPE, text=True, check=True).stdout  # fmt: skip
    expected = {"sorter": a.sum(), "lines": 5 * MIB + 4}.get(kind, a.nbytes)
    assert said.split() == [str(expected)] * 2


SORT = "vortex.sort_file(sys.argv[1], sys.argv[2], memory=32 << 20, **eval(sys.argv[3]))"


@pytest.mark.parametrize("name", ["raw", "a.npy"])
def test_memory_limit_holds(rng, tmp_path, name, peak_of):
    a = rng.integers(0, 1 << 60, 16 * MIB)
    (np.save if name == "a.npy" else lambda path, x: x.tofile(path))(tmp_path / name, a)
    keys = "{'dtype': 'i8'}" if name == "raw" else "{}"
    kib, _ = peak_of(SORT, tmp_path / name, tmp_path / f"out-{name}", keys)
    # Half of it, at least: the sort does not fit, and takes what it may.
    assert 16 * 1024 < kib <= 33 * 1024
    if name == "a.npy":
        assert (np.load(tmp_path / "out-a.npy") == np.sort(a)).all()


BESIDE = """
what = sys.argv[1]
if what == "partition":
    vortex.partition(sys.argv[2], [f"{sys.argv[2]}.{at}" for at in range(3)], [1 << 58, 1 << 59], dtype="i8", memory=32 << 20)
elif what == "merge":
    assert vortex.merge([f"{sys.argv[2]}.{at}" for at in range(32)], sys.argv[2], memory=32 << 20).runs == 0
else:
    assert vortex.check(sys.argv[2], dtype="i8", memory=32 << 20) is None
"""


@pytest.mark.parametrize("what", ["partition", "check", "merge"])
def test_memory_limit_holds_beside_sorts(rng, tmp_path, what, peak_of):
    a = rng.integers(0, 1 << 60, 8 * MIB)
    (a if what == "partition" else np.sort(a)).tofile(tmp_path / "in")
    for at, part in enumerate(np.array_split(a, 32) if what == "merge" else []):
        with open(tmp_path / f"in.{at}", "wb") as file:
            np.save(file, np.sort(part))
    kib, _ = peak_of(BESIDE, what, tmp_path / "in")
    assert kib <= 33 * 1024
