"""Arrays in memory, against numpy."""

import importlib.metadata
import inspect
import os
import pathlib
import re
import subprocess
import sys
import threading

import numpy as np
import pytest

import vortex

INTEGERS = ["u1", "u2", "u4", "u8", "i1", "i2", "i4", "i8"]
FLOATS = ["f2", "f4", "f8", "g"]
TIMES = ["M8[ns]", "m8[s]"]
TEXTS = ["S1", "S7", "S20", "U3"]
ALL = [*INTEGERS, *FLOATS, "?", *TIMES, *TEXTS]
# Around where kernels change: networks, caches, threads.
SIZES = [0, 1, 2, 10, 100, 1000, 20000]


def in_order(a, axis=-1):
    """numpy's own order. Its sort that is not stable leaves float16 with infinities unsorted where it uses AVX-512
    (numpy 2.4.6 on Zen 4)."""
    return np.sort(a, axis=axis, kind="stable")


def values(rng, dtype, size, kind="uniform"):
    """Random elements with all that is special in their type."""
    dtype = np.dtype(dtype)
    if dtype.kind == "S":
        raw = rng.integers(0, 4 if kind == "few" else 256, (size, dtype.itemsize), np.uint8)
        return raw.reshape(-1).view(dtype)[:size].copy()
    if dtype.kind == "U":
        points = rng.choice([0x61, 0x62, 0xE4, 0x4E2D, 0x1F600], (size, dtype.itemsize // 4)).astype(np.uint32)
        return points.reshape(-1).view(dtype)[:size].copy()
    if dtype.kind == "b":
        return rng.integers(0, 2, size).astype(bool)
    if kind == "few":
        a = rng.integers(0, 5, size).astype(dtype)
    elif dtype.kind == "f":
        a = rng.standard_normal(size).astype(dtype)
    else:
        a = rng.bytes(size * dtype.itemsize)
        a = np.frombuffer(a, f"i{dtype.itemsize}" if dtype.kind in "mM" else dtype).astype(dtype)
    if dtype.kind == "f" and size:
        some = rng.integers(0, size, size // 5 + 1)
        a[some] = rng.choice(np.array([np.nan, -np.nan, 0.0, -0.0, np.inf, -np.inf], dtype), some.size)
    if dtype.kind in "mM" and size:
        a[rng.integers(0, size, size // 5 + 1)] = np.array("NaT", dtype)
    return in_order(a) if kind == "sorted" else in_order(a)[::-1].copy() if kind == "reversed" else a


def backwards(a):
    """numpy's order turned round, but for what is missing, which stays behind."""
    missing = np.isnan(a) if a.dtype.kind == "f" else np.isnat(a) if a.dtype.kind in "mM" else np.zeros(a.shape, bool)
    return np.concatenate([in_order(a[~missing])[::-1], a[missing]])


@pytest.mark.parametrize("kind", ["uniform", "few", "sorted", "reversed"])
@pytest.mark.parametrize("dtype", ALL)
def test_sorts_as_numpy_does(rng, dtype, kind):
    for size in SIZES:
        a = values(rng, dtype, size, kind)
        expected = in_order(a)
        assert vortex.sort(b := a.copy()) is None
        np.testing.assert_array_equal(b, expected)
        np.testing.assert_array_equal(vortex.sorted(a), expected)
        np.testing.assert_array_equal(vortex.sorted(a, descending=True), backwards(a))
        np.testing.assert_array_equal(vortex.argsort(a), np.argsort(a, kind="stable"))
        np.testing.assert_array_equal(a[vortex.argsort(a, descending=True)], backwards(a))


@pytest.mark.parametrize("dtype", ["f4", "f8", "f2"])
def test_bits_of_floats_survive(rng, dtype):
    a = values(rng, dtype, 5000)
    bits = f"u{a.itemsize}"
    # NaNs of either sign and zeros of either sign: all are there afterwards.
    b = vortex.sorted(a)
    if dtype != "f2":
        np.testing.assert_array_equal(np.sort(b.view(bits)), np.sort(a.view(bits)))
    assert not np.isnan(b[: np.count_nonzero(~np.isnan(a))]).any()


@pytest.mark.parametrize("dtype", ["i4", "f2", "f8", "g", "?", "S7", "U3", "M8[ns]"])
def test_any_axis_strides_and_byte_order(rng, dtype):
    a = values(rng, dtype, 4 * 50 * 6).reshape(4, 50, 6)
    shapes = [a, a[::2, ::-3, 1:], a.transpose(2, 0, 1), np.asfortranarray(a), a[:, :0], a.astype(a.dtype.newbyteorder(">"))]
    for b in shapes:
        for axis in (0, 1, -1):
            expected = in_order(b, axis)
            np.testing.assert_array_equal(vortex.sorted(b, axis=axis), expected)
            places = vortex.argsort(b, axis=axis)
            np.testing.assert_array_equal(places, np.argsort(b, axis=axis, kind="stable"))
            whole = a.copy()
            part = whole[::2, ::-3, 1:]
            vortex.sort(part, axis=axis)
            np.testing.assert_array_equal(part, in_order(a[::2, ::-3, 1:], axis))
        np.testing.assert_array_equal(vortex.sorted(b, axis=None), in_order(b, None))
        np.testing.assert_array_equal(vortex.argsort(b, axis=None), np.argsort(b, axis=None, kind="stable"))
    # What lies between the elements stays.
    whole = a.copy()
    vortex.sort(whole[:, :, ::2], axis=1)
    np.testing.assert_array_equal(whole[:, :, 1::2], a[:, :, 1::2])


RECORD = np.dtype([("price", "f4"), ("name", "S5"), ("when", "M8[s]"), ("left", ">u2"), ("word", "U2")])


def records(rng, size, missing):
    a = np.empty(size, RECORD)
    for name in RECORD.names:
        a[name] = values(rng, RECORD[name], size, "few")
    if not missing:
        a["price"] = rng.integers(0, 5, size)
        a["when"] = rng.integers(0, 5, size)
    return a


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("by", ["price", "left", "word", ["when", "name"], None])
def test_structures_by_fields(rng, by, missing):
    a = records(rng, 3000, missing)
    names = RECORD.names if by is None else [by] if isinstance(by, str) else by
    expected = np.arange(a.size)
    for name in reversed(names):
        expected = expected[np.argsort(a[name][expected], kind="stable")]
    np.testing.assert_array_equal(vortex.argsort(a, by=by), expected)
    b = a.copy()
    vortex.sort(b, by=by)
    # The order of NaNs among themselves is nobody's; fields that are no keys show it is stable.
    assert b.tobytes() == vortex.sorted(a, by=by).tobytes() == a[expected].tobytes()
    falling = vortex.sorted(a, by=by, descending=True)
    if by == "left":
        np.testing.assert_array_equal(falling["left"], np.sort(a["left"])[::-1])


@pytest.mark.parametrize("keys", [10**9, 300])
def test_more_records_than_caches_hold(rng, keys):
    a = np.empty(30000, [("key", "S10"), ("index", "u4"), ("rest", "S86")])
    a["key"] = np.char.mod("%09d", rng.integers(0, keys, a.size))
    a["index"] = np.arange(a.size)
    a["rest"] = a["key"]
    given = a.copy()
    assert vortex.sorted(a, by="key").tobytes() == a[np.argsort(a["key"], kind="stable")].tobytes()
    assert a.tobytes() == given.tobytes()
    raw = a.view("S100")
    assert vortex.sorted(raw).tobytes() == np.sort(raw).tobytes()


def test_fields_of_fields(rng):
    inner = np.dtype([("low", "i2"), ("high", "f4")])
    a = np.empty(2000, [("at", inner), ("name", "S2")])
    a["at"]["low"], a["at"]["high"] = rng.integers(-3, 3, (2, a.size))
    a["name"] = values(rng, "S2", a.size, "few")
    expected = np.lexsort((a["name"], a["at"]["high"], a["at"]["low"]))
    np.testing.assert_array_equal(vortex.argsort(a), expected)
    np.testing.assert_array_equal(vortex.sorted(a, by="at"), a[np.lexsort((a["at"]["high"], a["at"]["low"]))])


@pytest.mark.parametrize("dtype", ["u4", "i8", "f8", "M8[ns]", "S7", "f2"])
@pytest.mark.parametrize("descending", [False, True])
def test_values_follow_their_keys(rng, dtype, descending):
    keys = values(rng, dtype, 4000, "few")
    rows = rng.integers(0, 1000, (4000, 3))
    small = np.arange(4000, dtype=np.uint32)
    wide = np.arange(8000, dtype=np.uint32)[::2]
    order = vortex.argsort(keys, descending=descending)
    for columns in ([small], [small, wide], [rows, small]):
        k, *v = keys.copy(), *(column.copy() for column in columns)
        vortex.sort_by_key(k, *v, descending=descending)
        assert k.tobytes() == keys[order].tobytes()
        for after, before in zip(v, columns):
            np.testing.assert_array_equal(after, before[order])
    strided = np.arange(8000, dtype=np.uint32)
    vortex.sort_by_key(keys.copy(), strided[::2], descending=descending)
    np.testing.assert_array_equal(strided[::2], wide[order])


@pytest.mark.parametrize("dtype", ["i8", "f4"])
def test_keys_may_be_part_of_their_values(rng, dtype):
    matrix = rng.integers(0, 50, (1000, 3)).astype(dtype)
    expected = matrix[np.argsort(matrix[:, 0], kind="stable")]
    vortex.sort_by_key(matrix[:, 0], matrix)
    np.testing.assert_array_equal(matrix, expected)
    # The keys lie in one piece, as the values do.
    line = rng.integers(0, 50, 1000).astype(dtype)
    expected = np.sort(line)
    vortex.sort_by_key(line, line.reshape(-1, 1), line)
    np.testing.assert_array_equal(line, expected)
    # Values that overlap each other alone: as if each were moved from where it was.
    keys, rows = rng.permutation(1000).astype(dtype), np.arange(2000).reshape(1000, 2)
    expected = rows[np.argsort(keys)]
    vortex.sort_by_key(keys, rows, rows[:, 1])
    np.testing.assert_array_equal(rows, expected)


@pytest.mark.parametrize("dtype", [[("a", "u1"), ("b", "S3")], [("none", "S0"), ("b", ">i4")]])
def test_nothing_to_sort_by_moves_nothing(rng, dtype):
    dtype = np.dtype(dtype)
    a = np.frombuffer(rng.bytes(500 * dtype.itemsize), dtype).copy()
    for by in [[], *(name for name in dtype.names if dtype[name].itemsize == 0)]:
        b = a.copy()
        vortex.sort(b, by=by)
        assert b.tobytes() == a.tobytes()
        np.testing.assert_array_equal(vortex.argsort(a, by=by), np.arange(a.size))


@pytest.mark.parametrize("dtype", [*INTEGERS, *FLOATS, "?", *TIMES])
def test_select_and_unique(rng, dtype):
    for size in (1, 10, 3000):
        a = values(rng, dtype, size)
        expected = in_order(a)
        for k in {0, size // 2, size - 1, -1}:
            b = a.copy()
            vortex.select(b, k)
            np.testing.assert_array_equal(b[k], expected[k])
            np.testing.assert_array_equal(in_order(b[: k % size]), expected[: k % size])
            np.testing.assert_array_equal(in_order(b), expected)
        b = a.copy()
        vortex.select(b, size // 3, ordered=True)
        np.testing.assert_array_equal(b[: size // 3], expected[: size // 3])
        np.testing.assert_array_equal(in_order(b), expected)
        np.testing.assert_array_equal(vortex.unique(a), np.unique(a))
        assert vortex.unique(a).dtype == a.dtype


@pytest.mark.parametrize("dtype", ["u1", "i4", "f4", "f8", "M8[s]"])
def test_unique_by_all_threads(rng, dtype):
    """So many that threads drop equal ones, with what is equal and has other bits."""
    size = (9 << 20) // min(np.dtype(dtype).itemsize, 4)
    a = rng.integers(-(1 << 20), 1 << 20, size).astype(dtype)
    if a.dtype.kind == "f":
        a[rng.integers(0, size, 9)] = np.array([0.0, -0.0, np.nan, -np.nan, -np.inf, -0.0, 0.0, -np.nan, np.nan])
    if a.dtype.kind == "M":
        a[rng.integers(0, size, 9)] = "NaT"
    expected = np.unique(a)
    np.testing.assert_array_equal(vortex.unique(a, threads=2), expected)
    missing = int(expected[-1] != expected[-1])
    down = np.concatenate([expected[: len(expected) - missing][::-1], expected[len(expected) - missing :]])
    np.testing.assert_array_equal(vortex.unique(a, descending=True, threads=2), down)


@pytest.mark.parametrize("dtype", FLOATS)
def test_unique_of_what_is_equal(dtype):
    zeros, nans = [0.0, -0.0], [np.nan, -np.nan]
    for some in ([], zeros, zeros[:1], zeros[1:], nans, nans[1:], [*nans, *zeros], [1, *zeros], [-1, *zeros, *nans, 1]):
        a = np.array(some, dtype)
        np.testing.assert_array_equal(vortex.unique(a), np.unique(a))


def test_select_and_unique_of_texts(rng):
    for dtype in TEXTS:
        a = values(rng, dtype, 500, "few")
        np.testing.assert_array_equal(vortex.unique(a), np.unique(a))
        b = a.copy()
        vortex.select(b[::-1], 100)
        assert b[::-1][100] == np.sort(a)[100]
        assert (b[::-1][:100] <= b[::-1][100]).all() and (b[::-1][101:] >= b[::-1][100]).all()
    assert vortex.unique(np.empty(0, "S3")).size == 0


def test_refuses_what_it_cannot_do():
    fixed = np.arange(5)[::-1].copy()
    fixed.flags.writeable = False
    with pytest.raises(ValueError, match="sorted"):
        vortex.sort(fixed)
    np.testing.assert_array_equal(vortex.sorted(fixed), np.arange(5))
    for wrong in ([3, 1], np.ma.array([1, 2]), np.array([1j, 2]), np.array([object()]), np.zeros(2, "V3")):
        with pytest.raises(TypeError):
            vortex.sort(wrong)
    with pytest.raises(ValueError, match="no field"):
        vortex.sort(np.zeros(2, RECORD), by="weight")
    with pytest.raises(ValueError):
        vortex.sort(np.array(1))
    with pytest.raises(ValueError, match="as many"):
        vortex.sort_by_key(np.arange(3), np.arange(4))
    for masked in ([np.ma.array([2, 1]), np.arange(2)], [np.array([2, 1]), np.ma.array([2, 1])]):
        with pytest.raises(TypeError, match="Masked"):
            vortex.sort_by_key(*masked)
    with pytest.raises(IndexError):
        vortex.select(np.arange(3), 3)


def test_sorts_without_the_gil(rng):
    a = rng.integers(0, 1 << 62, 1 << 21)
    # What happens once, such as an import, gives the GIL away.
    runs_beside(vortex.sort, a.copy())
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1000)
    try:
        # A busy machine may let no other thread run during a sort; not during fifty. numpy copies
        # without the GIL, so that is done before.
        assert any(runs_beside(lambda copy: vortex.sort(copy, threads=1), a.copy()) for _ in range(50))
    finally:
        sys.setswitchinterval(interval)


def runs_beside(work, argument):
    """Whether this thread gets the GIL while another one is in `work`."""
    started, ended = threading.Event(), []

    def run():
        started.set()
        work(argument)
        ended.append(None)

    thread = threading.Thread(target=run)
    thread.start()
    started.wait()
    beside = not ended
    thread.join()
    return beside


def test_threads_give_the_same(rng):
    a = rng.integers(0, 1 << 40, (1 << 21) + 5)
    assert vortex.sorted(a, threads=1).tobytes() == vortex.sorted(a, threads=3).tobytes() == np.sort(a).tobytes()


def test_imports_what_was_installed():
    # Not the folder of the sources; and nothing that a machine may not have.
    assert "site-packages" in vortex.__file__
    needed = subprocess.run(["ldd", vortex._core.__file__], stdout=subprocess.PIPE, text=True, check=True).stdout
    for library in ("sigsegv", "uring", "lz4", "jemalloc"):
        assert library not in needed
    assert vortex.__version__ == importlib.metadata.version("vortex-streams")


def test_everything_is_described():
    for name in vortex.__all__:
        thing = getattr(vortex, name)
        if name == "__version__":
            continue
        assert len(thing.__doc__ or "") > 40, name
        for call in [thing] if inspect.isfunction(thing) else [m for _, m in inspect.getmembers(thing, inspect.isfunction)]:
            if not call.__module__.startswith("vortex") or call.__name__.startswith("_"):
                continue
            assert call.__doc__, call.__qualname__
            told = {*call.__annotations__} - {"return"}
            assert told >= {*inspect.signature(call).parameters} - {"self", "cls"}, call.__qualname__


def test_the_types_of_the_module_are_those_that_it_has():
    stub = pathlib.Path(vortex.__file__).with_name("_core.pyi").read_text(encoding="utf-8")
    told = {*re.findall(r"^(?:def |class )?(\w+)(?=[(:])", stub, re.M)}
    assert told == {name for name in vars(vortex._core) if not name.startswith("_")}


@pytest.mark.parametrize("width", [0, 1, 3, 50_000])
def test_whatever_goes_along_with_keys(rng, width):
    count = 300 if width < 1000 else 9
    keys = rng.integers(0, 9, count).astype(np.float64)
    keys[::5] = np.nan
    order = np.argsort(keys, kind="stable")
    rows = rng.random((count, width))
    apart = rng.integers(0, 9, (count, 2 * width), np.int16)[:, ::2]
    pairs = np.array([(at, b"%d" % at) for at in range(count)], [("a", "i4"), ("b", "S5")])
    things = np.array([[at] for at in range(count)] + [None], object)[:-1]
    texts = np.array([f"{at}" * 20 for at in range(count)], np.dtypes.StringDType())
    values = rows, apart, pairs, things, texts
    for some in (values, values[:3]):
        mine = [np.array(one) if one is not apart else np.repeat(one, 2, axis=1)[:, ::2] for one in (keys, *some)]
        vortex.sort_by_key(*mine)
        np.testing.assert_array_equal(mine[0], keys[order])
        for one, before in zip(mine[1:], some):
            assert (one == before[order]).all()


LITTLE = """
import re, resource
import numpy as np, vortex
count = 1 << 20
keys = np.random.default_rng(1).random(count)
keys[5] = np.nan
before, wide = keys.copy(), np.ones((count, 12))
held = int(re.search(r"VmSize:\\s*(\\d+)", open("/proc/self/status").read()).group(1)) << 10
resource.setrlimit(resource.RLIMIT_AS, (held + (64 << 20), resource.RLIM_INFINITY))
try:
    vortex.sort_by_key(keys, wide, threads=1)
except MemoryError:
    print("refused", keys.tobytes() == before.tobytes())
"""


@pytest.mark.skipif("VORTEX_SANITIZER" in os.environ, reason="a sanitizer reserves address space")
def test_without_memory_no_key_moves():
    said = subprocess.run([sys.executable, "-c", LITTLE], stdout=subprocess.PIPE, text=True, check=True).stdout
    assert said.split() == ["refused", "True"]


def test_zeros_of_both_signs():
    zeros = np.array([0.0, -0.0])
    assert np.signbit(vortex.sorted(zeros)).tolist() == [True, False]
    assert vortex.argsort(zeros).tolist() == [0, 1]


def test_long_elements(rng):
    a = np.zeros(6, "S1100000")
    a[:] = [b"%d" % number for number in rng.permutation(6)]
    assert (vortex.sorted(a) == np.sort(a)).all()
    assert (vortex.sorted(a, descending=True) == np.sort(a)[::-1]).all()
    structured = np.zeros(6, [("k", "S1100000"), ("v", "i4")])
    structured["k"], structured["v"] = a, np.arange(6)
    assert (vortex.sorted(structured, by="k")["v"] == np.argsort(a)).all()
    vortex.sort(a.reshape(2, 3))
    assert (a.reshape(2, 3)[:, :2] <= a.reshape(2, 3)[:, 1:]).all()
