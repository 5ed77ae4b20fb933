"""Touches of files that cannot be served, and what else meets a fault: signals, threads, processes, the end."""

import concurrent.futures
import errno
import multiprocessing
import os
import signal
import subprocess
import sys

import numpy as np
import pytest

import vortex


def said_by(program, *arguments, code=0):
    """What a program printed; on stderr, too."""
    done = subprocess.run([sys.executable, "-c", program, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True, check=False)  # fmt: skip
    assert done.returncode == code, done.stderr
    return done.stdout.split(), done.stderr


CUT = """
import faulthandler, hashlib, os, sys, threading
import numpy as np, vortex
path, size = sys.argv[1], os.path.getsize(sys.argv[1])
faulthandler.enable()
touches = {
    "sum": lambda f: f.sum(), "element": lambda f: f[-1], "add": lambda f: f[100_000:200_000] + 1,
    "compare": lambda f: f == f, "fancy": lambda f: f[[-1, -2]], "bytes": lambda f: bytes(memoryview(f)),
    "hash": lambda f: hashlib.sha256(f), "sort": lambda f: vortex.sorted(f), "pickle": lambda f: f.__reduce_ex__(5),
    "strides": lambda f: f[::7].copy(), "list": lambda f: f[-5:].tolist(), "array": lambda f: np.add(np.asarray(f), 1),
}
def is_told(touch, f):
    try:
        touch(f)
    except vortex.StreamError as error:
        assert error.errno == 61 and error.filename == path and "at byte" in str(error), error
        return 1
    return 0
for name, touch in touches.items():
    os.truncate(path, size)
    if name == "bytes":
        faulthandler.disable()
        faulthandler.enable()
    f = vortex.open(path, np.int64, memory=8 << 20)
    os.truncate(path, 4096)
    told = [is_told(touch, f) for _ in range(3)]
    threads = [threading.Thread(target=lambda: told.append(is_told(touch, f))) for _ in range(2)]
    for thread in threads:
        thread.start()
        thread.join()
    print(name, *told)
for _ in range(1000):  # nothing is left over
    sum(range(10))
"""


def test_a_cut_file_is_an_exception_behind_the_touch(numbers):
    path, _ = numbers
    said, line = said_by(CUT, path)
    assert line == "" and len(said) == 12 * 6 and set(said[1::6]) == set(said[5::6]) == {"1"}, said
    assert all(one == "1" for at, one in enumerate(said) if at % 6), said


TWO = """
import os, sys
import numpy as np, vortex
f, g = (vortex.open(path, np.int64)[100_000:100_100] for path in sys.argv[1:])
for path in sys.argv[1:]:
    os.truncate(path, 4096)
for touch in lambda: f + g, lambda: g.sum(), lambda: f.sum():
    try:
        print(touch())
    except vortex.StreamError as error:
        print(error.errno)
"""


def test_a_call_that_two_cut_files_fail_in_leaves_no_zeros(numbers, tmp_path):
    path, a = numbers
    a.tofile(tmp_path / "other")
    assert said_by(TWO, path, tmp_path / "other") == ([str(errno.ENODATA)] * 3, "")


STORES = """
import resource, signal, sys
import numpy as np, vortex
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
path = sys.argv[1]
f = vortex.open(path, np.int64, "r+", memory=4 << 20)
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, resource.RLIM_INFINITY))
try:
    f[:] = 1
except vortex.StreamError as error:
    print(error.errno, error.filename == path)
try:
    f.flush()
except OSError as error:
    print(error.errno)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
f[:] = 2
f.flush()
print(bool((np.fromfile(path, np.int64) == 2).all()))
"""


def test_what_cannot_be_written_is_an_exception_and_may_be_tried_again(numbers):
    path, _ = numbers
    assert said_by(STORES, path)[0] == [str(errno.EFBIG), "True", str(errno.EFBIG), "True"]


STORES_TO_WHAT_STAYS = """
import os, sys
import numpy as np, vortex
path = sys.argv[1]
def tell(store):
    try:
        store()
        print("stored")
    except vortex.StreamError as error:
        print(error.errno, error.filename == path)
with vortex.open(path, np.int64, "r+") as f:
    f[5] = 7
for at in (5, 5, 6, -1):
    tell(lambda: f.__setitem__(at, 8))
f = vortex.open(path, np.int64, "r+", memory=8 << 20)
first = f[0]
os.truncate(path, 4096)
tell(lambda: f[-1])
tell(lambda: f.__setitem__(0, 8))
del f
print(bool((np.fromfile(path, np.int64)[[0, 5]] == [first, 7]).all()))
"""


def test_stores_to_what_may_only_be_read_once_all_is_over(numbers):
    path, _ = numbers
    said, line = said_by(STORES_TO_WHAT_STAYS, path)
    expected = [str(errno.EBADF), "True"] * 4 + [str(errno.ENODATA), "True"] * 2 + ["True"]
    assert said == expected and line == ""


SIGNALS = """
import signal, sys
import numpy as np, vortex
f = vortex.open(sys.argv[1], np.int64, memory=8 << 20)
# They come all the time, and so inside faults.
seen = []
signal.signal(signal.SIGALRM, lambda *_: seen.append(1))
signal.setitimer(signal.ITIMER_REAL, 1e-4, 1e-4)
total = sum(int(f[begin:begin + 4096].sum()) for begin in range(0, f.size, 4096))
signal.setitimer(signal.ITIMER_REAL, 0)
print(total, bool(seen))
signal.signal(signal.SIGALRM, signal.default_int_handler)
signal.setitimer(signal.ITIMER_REAL, 1e-3)
try:
    while True:
        f[::512].sum()
except KeyboardInterrupt:
    print("interrupted", int(f.sum()))
"""


def test_signals_inside_faults(numbers):
    path, a = numbers
    assert said_by(SIGNALS, path) == ([str(a.sum()), "True", "interrupted", str(a.sum())], "")


FORKED = """
import os, sys
import numpy as np, vortex
f = vortex.open(sys.argv[1], np.int64)
f[0]
child = os.fork()
if child == 0:
    print(int((f if sys.argv[2] == "parent" else vortex.open(sys.argv[1], np.int64)).sum()), flush=True)
    os._exit(0)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), int(f.sum()))
"""


@pytest.mark.parametrize("whose", ["child", "parent"])
def test_a_forked_child_has_no_array_of_its_parent(numbers, whose):
    path, a = numbers
    said, line = said_by(FORKED, path, whose)
    if whose == "parent":
        assert said == [str(-signal.SIGSEGV), str(a.sum())] and "forked child" in line
    else:
        assert said == [str(a.sum()), "0", str(a.sum())]


def _sum(part):
    return int(part.sum())


@pytest.mark.parametrize("method", ["spawn", "fork"])
def test_multiprocessing(numbers, method):
    path, a = numbers
    f = vortex.open(path, np.int64)
    with multiprocessing.get_context(method).Pool(1) as pool:
        assert pool.map(_sum, [f[:1000], f[-1000:]]) == [a[:1000].sum(), a[-1000:].sum()]
    assert f.sum() == a.sum()


def test_threads(rng, numbers):
    path, a = numbers
    f = vortex.open(path, np.int64, memory=8 << 20)

    def sums(seed):
        begins = np.random.default_rng(seed).integers(0, a.size - 50_000, 40)
        return all(f[begin : begin + 50_000].sum() == a[begin : begin + 50_000].sum() for begin in begins)

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        assert all(pool.map(sums, rng.integers(0, 1 << 30, 8)))


def test_closing(numbers):
    path, a = numbers
    with vortex.open(path, np.int64) as f:
        assert f.sum() == a.sum()
    with pytest.raises(vortex.StreamError) as caught:
        f.sum()
    assert caught.value.errno == errno.EBADF and caught.value.filename == str(path)
    with vortex.open(path, np.int64, "r+") as f:
        f[5] = 7
    assert np.fromfile(path, np.int64)[5] == 7


@pytest.mark.parametrize("view", [lambda f: f[:4], np.asarray, lambda f: f.reshape(-1, 2)[::2], lambda f: f.T])
def test_closing_while_views_are_alive(numbers, tmp_path, view):
    path, a = numbers
    f = vortex.open(path, np.int64)
    part, also_f = view(f), f
    with pytest.raises(BufferError, match="alive"):
        f.close()
    assert f.sum() == a.sum() and part.size
    with pytest.raises(ValueError, match="view"):
        f[1:2].close()
    del part
    also_f.close()
    with pytest.raises(BufferError, match="complete"):
        with vortex.create(tmp_path / "made", np.int64, 10) as made:
            made[:] = 3
            part = view(made)
    assert np.fromfile(tmp_path / "made", np.int64).tolist() == [3] * 10 and part.size


ARROW = """
import os, sys
import pyarrow as pa, pyarrow.compute as pc
import numpy as np, vortex
pa.set_cpu_count(2)
f = vortex.open(sys.argv[1], np.int64, memory=8 << 20)
whole = pa.chunked_array([pa.Array.from_buffers(pa.int64(), f.size, [None, pa.py_buffer(f)])])
print(pc.sum(whole).as_py() == f.sum())
os.truncate(sys.argv[1], 4096)
for _ in range(2):
    try:
        pc.sum(whole)
    except vortex.StreamError as error:
        print(error.errno)
"""


def test_code_of_others(numbers):
    pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    path, _ = numbers
    assert said_by(ARROW, path)[0] == ["True", str(errno.ENODATA), str(errno.ENODATA)]
