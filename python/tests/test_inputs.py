"""What is no ndarray: buffers, DLPack, pyarrow, polars."""

import array
import ctypes
import datetime

import numpy as np
import pytest

import vortex


class DlPack:
    """Nothing but the protocol."""

    def __init__(self, array):
        self.__dlpack__ = array.__dlpack__
        self.__dlpack_device__ = array.__dlpack_device__


def test_takes_what_shows_its_memory(rng):
    a = rng.integers(-1000, 1000, 500)
    for same in (a.tolist(), array.array("q", a), memoryview(a), DlPack(a)):
        np.testing.assert_array_equal(vortex.sorted(same), np.sort(a))
        np.testing.assert_array_equal(vortex.argsort(same), np.argsort(a, kind="stable"))


def test_sorts_others_memory_where_it_is(rng):
    a = rng.integers(0, 256, 500).astype(np.uint8)
    of_numpy = a.copy()
    for same in (bytearray(a), array.array("B", a), memoryview(bytearray(a)), (ctypes.c_uint8 * 500)(*a), DlPack(of_numpy)):
        vortex.sort(same)
        seen = of_numpy if isinstance(same, DlPack) else np.frombuffer(same, np.uint8)
        np.testing.assert_array_equal(seen, np.sort(a))
    every_second = array.array("B", a)
    vortex.select(memoryview(every_second)[::2], 7)
    assert every_second[14] == np.sort(a[::2])[7] and every_second[1] == a[1]
    for fixed in (bytes(a), memoryview(bytes(a))):
        with pytest.raises(ValueError, match="sorted"):
            vortex.sort(fixed)


WORDS = ["b", "", "\u00e4", "abc", "ab", "\U0001f600", "z\0", "z", "b"]


def kinds_of_strings(pa):
    for kind in (pa.string(), pa.large_string(), pa.binary(), pa.large_binary(), pa.string_view()):
        words = [w.encode() for w in WORDS] if "binary" in str(kind) else WORDS
        whole = pa.array(["first", "second", *words, "last"] if words is WORDS else [b"first", *words], kind)
        whole = whole[2:-1] if words is WORDS else whole[1:]
        yield whole, words
        yield pa.chunked_array([whole[:3], whole[3:3], whole[3:]]), words


def test_arrow(rng):
    pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    a = rng.integers(-1000, 1000, 500)
    for same in (pa.array(a), pa.chunked_array([a[:100], a[100:]]), pa.array([0, *a])[1:], pa.chunked_array([a])):
        np.testing.assert_array_equal(vortex.sorted(same), np.sort(a))
        np.testing.assert_array_equal(vortex.argsort(same), np.argsort(a, kind="stable"))
    np.testing.assert_array_equal(vortex.sorted(pa.array([True, False, True])), [False, True, True])
    np.testing.assert_array_equal(vortex.sorted(pa.py_buffer(b"cab")), list(b"abc"))
    for table in (pa.table({"one": [3, 2], "two": [1, 4]}), pa.record_batch({"one": [3, 2], "two": [1, 4]})):
        np.testing.assert_array_equal(vortex.sorted(table), np.sort(np.asarray(table)))
    days = [datetime.datetime(2026, 1, 2), datetime.datetime(1960, 1, 1)]
    np.testing.assert_array_equal(vortex.sorted(pa.array(days)), np.sort(np.array(days, "M8[us]")))
    for nulls in (pa.array([1, None]), pa.array(["a", None])):
        with pytest.raises(ValueError, match="nulls"):
            vortex.sorted(nulls)
    # Arrow's memory is nobody's to change.
    with pytest.raises((TypeError, ValueError)):
        vortex.sort(pa.array(a))


def test_strings_of_arrow():
    pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    for strings, words in kinds_of_strings(pa):
        expected = sorted(range(len(words)), key=lambda i: words[i].encode() if words is WORDS else words[i])
        assert vortex.argsort(strings).tolist() == expected
        assert vortex.sorted(strings).to_pylist() == [words[i] for i in expected]
        once = vortex.unique(strings, descending=True)
        assert once.type == strings.type and once.to_pylist() == list(dict.fromkeys(words[i] for i in expected))[::-1]
    assert vortex.sorted(pa.array([], pa.string())).to_pylist() == []


def test_polars(rng):
    pl = pytest.importorskip("polars", reason="polars is not installed")
    a = rng.standard_normal(500)
    for same in (pl.Series(a), pl.Series([0.0, *a])[1:], pl.concat([pl.Series(a[:9]), pl.Series(a[9:])], rechunk=False)):
        np.testing.assert_array_equal(vortex.sorted(same, descending=True), np.sort(a)[::-1])
        np.testing.assert_array_equal(vortex.argsort(same), np.argsort(a, kind="stable"))
    in_order = sorted(WORDS, key=str.encode)
    assert vortex.sorted(pl.Series(WORDS)).to_list() == in_order == pl.Series(WORDS).sort().to_list()
    assert vortex.unique(pl.Series(WORDS)).to_list() == sorted(set(WORDS), key=str.encode)
    with pytest.raises(ValueError, match="nulls"):
        vortex.sorted(pl.Series([1, None]))
