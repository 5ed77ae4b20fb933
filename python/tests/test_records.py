"""Arrays of records: merged, and what sorts beyond one machine do with them."""

import errno

import numpy as np
import pytest

import vortex
from vortex import _core
from vortex._new_files import NewFile
from vortex._ray_forms import Border, LineForm

DTYPES = ["u8", "i2", "f8", "S3", "M8[s]", np.dtype([("key", "i4"), ("place", "u4")])]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("descending", [False, True])
def test_merge_arrays(rng, tmp_path, dtype, descending):
    dtype = np.dtype(dtype)
    key = None if dtype.names is None else "key"
    arrays = []
    for place in range(int(rng.integers(1, 9))):
        values = rng.integers(0, 50, rng.choice([0, 1, 3000]))
        one = np.zeros(values.size, dtype)
        if key:
            one["key"], one["place"] = values, place
        else:
            one[...] = values.astype(dtype) if dtype.kind != "S" else [str(value).encode() for value in values]
        arrays.append(one[np.argsort(one[key] if key else one, kind="stable")])
        if descending:  # equal ones keep their order
            column = arrays[-1][key] if key else arrays[-1]
            arrays[-1] = arrays[-1][::-1][np.argsort(column[::-1], kind="stable")[::-1]]
    together = np.concatenate(arrays)
    column = together[key] if key else together
    _, number = np.unique(column, return_inverse=True)
    expected = together[np.argsort(-number if descending else number, kind="stable")]
    np.testing.assert_array_equal(vortex.merge_arrays(arrays, key=key, descending=descending), expected)
    room = np.zeros(together.size, dtype)
    assert vortex.merge_arrays(arrays, room, key=key, descending=descending, threads=1) is room
    np.testing.assert_array_equal(room, expected)
    with open(tmp_path / "merged", "wb") as file:
        file.write(b"head")
        assert vortex.merge_arrays(arrays, file, key=key, descending=descending) is None
        file.write(b"tail")
    assert (tmp_path / "merged").read_bytes() == b"head" + expected.tobytes() + b"tail"


def test_merge_arrays_refuses():
    a = np.arange(4)
    for arrays, more, said in [
        ([], {}, "none"),
        ([a, a.astype("u4")], {}, "uint32"),
        ([a], {"out": a}, "shares"),
        ([a, a], {"out": np.zeros(7, a.dtype)}, "8 elements"),
        ([a.reshape(2, 2)], {}, "2 axes"),
    ]:
        with pytest.raises(ValueError, match=said):
            vortex.merge_arrays(arrays, **more)
    with pytest.raises(OSError) as failed, open("/dev/full", "wb", buffering=0) as full:
        vortex.merge_arrays([a], full)
    assert failed.value.errno == errno.ENOSPC


def test_records_are_sorted_divided_and_summed(rng):
    """What the machines of a larger sort ask of each array."""
    record, keys = 13, [(4, 2, 0, False, False)]
    records = rng.integers(0, 3, (1000, record), np.uint8)
    borders = rng.integers(0, 3, (20, record), np.uint8)
    column = records[:, 4].astype(int) * 256 + records[:, 5]
    out = np.zeros_like(records)
    _core.sort_to_array([records[:300].copy(), records[300:].copy()], record, keys, out)
    np.testing.assert_array_equal(out, records[np.argsort(column, kind="stable")])
    for border, (before, up_to) in zip(borders, _core.ranks(out, record, keys, borders)):
        key = int(border[4]) * 256 + int(border[5])
        assert before == (column < key).sum()
        assert up_to == (column <= key).sum()
        assert _core.count_equal(records, record, keys, border) == up_to - before
    total = _core.sum_records(records, record)
    assert _core.sum_records(out, record) == total
    assert (_core.sum_records(out[:7].copy(), record) + _core.sum_records(out[7:].copy(), record)) % 2**64 == total
    # Any byte changes it, and two records that swap what lies behind their keys.
    numbers = set()
    for at in range(record):
        changed = out.copy()
        changed[10, at] ^= 128
        numbers.add(_core.sum_records(changed, record))
    out[[0, -1], 6:] = out[[-1, 0], 6:]
    numbers.add(_core.sum_records(out, record))
    assert total not in numbers
    assert len(numbers) == record + 1


def test_lines_are_sorted_divided_and_merged(rng, tmp_path):
    """The same for lines, whose merge goes through files where its memory is little."""
    form = LineForm((["2,2n"], "", "", False), True)
    lines = [b"%d %d %050d" % (at, more, 0) for at, more in enumerate(rng.integers(0, 1000, 60_000))]

    def text(some):
        return np.frombuffer(b"".join(line + b"\n" for line in some), np.uint8)

    def by_number(some):
        return sorted(some, key=lambda line: int(line.split()[1]))

    part = lines[:1000]
    ends = np.cumsum([len(line) + 1 for line in part])
    borders = [Border(b"x %d" % (at % 5 * 150), at // 5 * 2, 0) for at in range(10)]
    borders[5] = Border(part[500], 1, int(ends[499]))
    borders = [borders[at] for at in form.order(borders)]
    found, cuts = form.divide(1, text(part), borders, lambda size: np.empty(size, np.uint8))
    assert found.tobytes() == text(by_number(part)).tobytes()
    # Of lines with the number of a border, those of parts and places in front of it come before it.
    for border, cut in zip(borders, cuts[1:]):
        number = int(border.record.split()[1])
        before = [
            line
            for at, line in enumerate(part)
            if (int(line.split()[1]), 1, int(ends[at]) - len(line) - 1) < (number, border.part, border.place)
        ]
        assert cut == sum(len(line) + 1 for line in before)
    expected = text(by_number(lines)).tobytes()
    runs = [text(by_number(some)) for some in (lines[:1000], lines[1000:40_000], [], lines[40_000:])]
    for memory in (16 << 20, 1 << 30):
        with NewFile(str(tmp_path / "merged")) as file:
            summary = form.merge(runs, [], file.part, memory, True)
            file.finish()
            file.appear()
        assert (tmp_path / "merged").read_bytes() == expected
        assert summary == form.summary(np.frombuffer(expected, np.uint8)) == form.summary_of_file(tmp_path / "merged")
        assert [path.name for path in tmp_path.iterdir()] == ["merged"]
        assert form.disorder(str(tmp_path / "merged"), 16 << 20) is None
    assert form.before("312031", "302032")
    assert not form.before("302032", "312031")


def test_merge_to_file(rng, tmp_path):
    """Arrays come in front of files; equal records keep that order."""
    item = np.dtype([("key", "u4"), ("place", "u4")])
    keys = [(0, 4, 1, False, False)]
    sources, names = [], []
    for place in range(6):
        one = np.zeros(int(rng.choice([0, 1, 100_000])), item)
        one["key"], one["place"] = np.sort(rng.integers(0, 50, one.size)), place
        sources.append(one)
        if place >= 2:
            names.append(str(tmp_path / f"{place}"))
            one.tofile(names[-1])
    together = np.concatenate(sources)
    expected = together[np.argsort(together["key"], kind="stable")]
    out = str(tmp_path / "out")
    for memory in (1, 64 << 20):
        total = _core.merge_to_file([raw(one) for one in sources[:2]], names, 8, keys, out, memory > 1, memory)
        assert total == (_core.sum_records(raw(expected), 8) if memory > 1 else 0)
        assert np.fromfile(out, item).tobytes() == expected.tobytes()


def test_merge_to_file_refuses(tmp_path):
    (tmp_path / "a").write_bytes(b"12345")
    for names, out, code in [("a", "out", errno.EINVAL), ("b", "out", errno.ENOENT), ("", "none/out", errno.ENOENT)]:
        with pytest.raises(OSError) as failed:
            inputs = [str(tmp_path / names)] if names else []
            _core.merge_to_file([], inputs, 4, [(0, 4, 0, False, False)], str(tmp_path / out), False, 1 << 20)
        assert failed.value.errno == code
        assert not (tmp_path / out).exists()


def raw(array):
    return array.view(np.uint8).reshape(-1)
