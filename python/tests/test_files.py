"""Files as arrays."""

import concurrent.futures
import errno
import io
import os
import pickle
import socket
import subprocess
import sys

import numpy as np
import pytest

import vortex

MIB = 1 << 20


def test_reads_in_any_order(rng, numbers):
    path, a = numbers
    f = vortex.open(path, np.int64, memory=8 * MIB)
    assert isinstance(f, np.ndarray) and f.shape == a.shape and not f.flags.writeable
    assert f.sum() == a.sum()
    assert (f[::-1][:1000] == a[::-1][:1000]).all()
    places = rng.integers(0, a.size, 200)
    some = f[places]
    assert type(some) is np.ndarray and (some == a[places]).all()
    assert type(f + 1) is np.ndarray and f[5] == a[5] and isinstance(f[5], np.int64)
    with pytest.raises(ValueError):
        f[0] = 1


def test_slices_keep_the_file_open(numbers):
    path, a = numbers
    part = vortex.open(path, np.int64)[1000:2000]
    path.unlink()
    assert isinstance(part, vortex.Array) and (part == a[1000:2000]).all()


def test_what_the_kernel_reads(numbers, tmp_path):
    path, a = numbers
    for part, same in ((vortex.open(path, "i8"), a), (vortex.open(path, "i8")[::3], a[::3])):
        np.save(tmp_path / "saved.npy", part)
        assert (np.load(tmp_path / "saved.npy") == same).all()
        part.tofile(str(tmp_path / "raw"))
        assert (np.fromfile(tmp_path / "raw", np.int64) == same).all()
        with open(tmp_path / "written", "wb") as out:
            assert vortex.write(out.fileno(), part) == same.nbytes
        assert (np.fromfile(tmp_path / "written", np.int64) == same).all()
        with open(tmp_path / "written", "wb") as out:
            out.write(b"head")
            assert vortex.write(out, part) == same.nbytes
        assert (tmp_path / "written").read_bytes() == b"head" + same.tobytes()


def test_sockets_get_all_or_an_error(numbers):
    path, a = numbers
    f = vortex.open(path, "i8")
    ours, theirs = socket.socketpair()
    received = []

    def receive():
        with theirs:
            while data := theirs.recv(1 << 16):
                received.append(data)

    with concurrent.futures.ThreadPoolExecutor(1) as pool, ours:
        done = pool.submit(receive)
        ours.setblocking(False)
        assert vortex.write(ours, f) == a.nbytes
        ours.setblocking(True)
        if vortex.engine() == "userfaultfd":
            ours.sendall(f)
        else:
            with pytest.raises(OSError) as caught:
                ours.sendall(vortex.open(path, "i8"))
            assert caught.value.errno == errno.EFAULT
        ours.shutdown(socket.SHUT_WR)
        done.result()
    assert b"".join(received).startswith(a.tobytes())


BY_USERFAULTFD = """
import os, pickle, sys
import numpy as np, vortex
try:
    vortex.use_engine("userfaultfd")
except OSError as error:
    print("not here:", error)
    sys.exit()
assert vortex.engine() == "userfaultfd"
path, target = sys.argv[1:]
f = vortex.open(path, np.int64, memory=8 << 20)
with open(target, "wb", buffering=0) as out:
    rest = memoryview(f).cast("B")
    while rest:
        rest = rest[os.write(out.fileno(), rest):]
with open(target, "rb") as file:
    assert file.read() == f.tobytes()
with open(target, "wb") as out:
    out.write(f)
assert (np.fromfile(target, np.int64) == f).all()
try:
    vortex.use_engine("signals")
except OSError as busy:
    print(busy.errno)
os.truncate(path, 4096)
try:
    vortex.open(target, np.int64)[0]
    f.sum()
except vortex.StreamError as error:
    print(error.errno, error.filename == path)
try:
    with open(target, "wb") as out:
        out.write(vortex.open(path, np.uint8)[:4096])
        out.write(f)
        out.flush()
except OSError as error:
    print(error.errno)
"""


def test_userfaultfd_serves_the_kernel(numbers, tmp_path):
    path, _ = numbers
    done = subprocess.run([sys.executable, "-c", BY_USERFAULTFD, path, tmp_path / "out"], stdout=subprocess.PIPE,
                          text=True, check=True)  # fmt: skip
    if done.stdout.startswith("not here"):
        pytest.skip(done.stdout)
    assert done.stdout.split() == [str(errno.EBUSY), str(errno.ENODATA), "True", str(errno.EFAULT)]


def test_engines_by_name():
    assert vortex.engine() in ("signals", "userfaultfd")
    with pytest.raises(ValueError, match="'auto'"):
        vortex.use_engine("poll")


class Reluctant(io.FileIO):
    """Takes a part of what it is given, as a pipe may."""

    def write(self, data):
        return super().write(memoryview(data)[:100_000])


def test_a_raw_file_may_take_a_part(numbers, tmp_path):
    path, a = numbers
    with Reluctant(tmp_path / "parts", "w") as out:
        vortex.open(path, "i8").tofile(out)
    assert (tmp_path / "parts").read_bytes() == a.tobytes()


def test_pickles_hold_the_elements(numbers, tmp_path):
    path, a = numbers
    for protocol in (2, 5):
        with open(tmp_path / "pickled", "wb") as out:
            pickle.dump(vortex.open(path, "i8"), out, protocol)
        with open(tmp_path / "pickled", "rb") as file:
            back = pickle.load(file)
        assert type(back) is np.ndarray and (back == a).all()


def test_guarded_read(numbers):
    path, a = numbers
    f = vortex.open(path, np.int64)
    assert (f.read(100, 50) == a[100:150]).all() and type(f.read(0, 1)) is np.ndarray
    assert (f[1000:].read(5, 5) == a[1005:1010]).all()
    with pytest.raises(IndexError):
        f.read(a.size - 1, 2)
    os.truncate(path, 4096)
    with pytest.raises(OSError) as caught:
        f.read(a.size - 1000, 1000)
    assert caught.value.errno == errno.ENODATA and "numbers" in str(caught.value)


def test_blocks(numbers):
    path, a = numbers
    parts = list(vortex.blocks(path, np.int64, 1_000_000))
    assert [part.size for part in parts] == [1_000_000] * 3 + [a.size - 3_000_000]
    assert sum(int(part.sum()) for part in parts) == a.sum()


def test_npy_headers(rng, tmp_path):
    a = rng.standard_normal((100, 7, 3)).astype(np.float32)
    np.save(tmp_path / "a.npy", a)
    np.testing.assert_array_equal(vortex.open(tmp_path / "a.npy"), a)
    np.testing.assert_array_equal(vortex.open(tmp_path / "a.npy").read(50, 2), a[50:52])
    np.save(tmp_path / "none.npy", a[:0])
    assert vortex.open(tmp_path / "none.npy").shape == (0, 7, 3)


def test_npy_headers_beside_a_dtype(tmp_path):
    a = np.arange(100, dtype=np.int64)
    np.save(tmp_path / "a.npy", a)
    np.testing.assert_array_equal(vortex.open(tmp_path / "a.npy", np.int64), a)
    assert [part.size for part in vortex.blocks(tmp_path / "a.npy", "i8", 64)] == [64, 36]
    for other in ("u8", ">i8", np.uint8):
        with pytest.raises(ValueError, match="a.npy: a .npy file of int64"):
            vortex.open(tmp_path / "a.npy", other)


@pytest.mark.filterwarnings("ignore:Stored array in format")
@pytest.mark.parametrize("names", [["größe", "日本"], [f"a long name of a field, number {i}" for i in range(3000)]])
def test_npy_headers_of_any_names(tmp_path, names):
    a = np.zeros(5, [(name, "u1") for name in names])
    a[names[1]] = [3, 1, 2, 5, 4]
    np.save(tmp_path / "a.npy", a)
    with vortex.create(tmp_path / "made.npy", a.dtype, 5) as made:
        made[:] = a
    data = (tmp_path / "made.npy").read_bytes()
    assert (len(data) - a.nbytes) % 64 == 0
    back = np.load(tmp_path / "made.npy", max_header_size=len(data))
    assert back.dtype == a.dtype and back.tobytes() == a.tobytes()
    if len(names) < 10:
        for name in ("a.npy", "made.npy"):
            back = vortex.open(tmp_path / name)
            assert back.dtype == a.dtype and back.tobytes() == a.tobytes()
        vortex.sort_file(tmp_path / "a.npy", tmp_path / "sorted.npy", key=names[1])
        assert np.load(tmp_path / "sorted.npy")[names[1]].tolist() == [1, 2, 3, 4, 5]


def test_damaged_npy_headers(tmp_path):
    path = tmp_path / "a.npy"
    for data in (b"\x03\x00\x04\x00\x00\x00{'a'", b"\x03\x00\x02\x00\x00\x00[]",
                 b"\x03\x00\x02\x00\x00\x00{}", b"\x03\x00\x01",
                 b"\x03\x00\x00\x00\x00\x40" + b"(" * 100_000, b"\x09\x00\x02\x00\x00\x00{}"):  # fmt: skip
        path.write_bytes(b"\x93NUMPY" + data)
        with pytest.raises(ValueError):
            vortex.open(path)


def test_create_fills_in_any_order(rng, tmp_path):
    path = tmp_path / "made.npy"
    with vortex.create(path, np.int32, (5 * MIB,), memory=8 * MIB) as f:
        assert not path.exists() and not f.any()
        f[::-1] = np.arange(5 * MIB)
        f[7] = -1
    expected = np.arange(5 * MIB, dtype=np.int32)[::-1].copy()
    expected[7] = -1
    np.testing.assert_array_equal(np.load(path), expected)
    assert os.listdir(tmp_path) == ["made.npy"]
    np.testing.assert_array_equal(f, expected)
    with pytest.raises(ValueError):
        f[0] = 1


@pytest.mark.parametrize("name", ["n" * 255, "\N{SECTION SIGN}" * 127, "a" + "\N{GRINNING FACE}" * 63])
def test_names_as_long_as_they_may_be(tmp_path, name):
    with vortex.create(tmp_path / name, np.int8, 3) as f:
        f[:] = 1
    vortex.partition(tmp_path / name, [tmp_path / name, tmp_path / "b"], [2], dtype="i1")
    assert sorted(os.listdir(tmp_path)) == sorted(["b", name]) and (tmp_path / name).read_bytes() == b"\1" * 3


def test_names_that_are_no_text(tmp_path):
    path = os.path.join(tmp_path, os.fsdecode(b"\xe9.bin"))
    with vortex.create(path, np.int8, 3) as f:
        f[:] = [3, 1, 2]
    vortex.sort_file(path, path, dtype="i1")
    assert vortex.open(path, np.int8).tolist() == [1, 2, 3]
    vortex.partition(path, [path, path + "2"], [3], dtype="i1")
    assert vortex.check(path, dtype="i1") is None
    assert sorted(os.listdir(os.fsencode(tmp_path))) == [b"\xe9.bin", b"\xe9.bin2"]
    with pytest.raises(FileNotFoundError) as caught:
        vortex.open(path + "none")
    assert caught.value.filename == path + "none"
    with open(path, "wb") as file:
        file.write(b"b\na\n")
    assert vortex.check(path, record="lines") == (path, 1)
    with pytest.raises(ValueError, match="no file"):
        vortex.create(tmp_path / "a\0b", np.int8, 1)


def test_create_leaves_nothing_behind_an_exception(tmp_path):
    (tmp_path / "old").write_bytes(b"old")
    with pytest.raises(KeyError):
        with vortex.create(tmp_path / "old", np.int8, 100) as f:
            f[:] = 1
            raise KeyError
    assert os.listdir(tmp_path) == ["old"] and (tmp_path / "old").read_bytes() == b"old"


def test_create_leaves_nothing_of_what_numpy_refuses(tmp_path):
    with pytest.raises(ValueError):
        with vortex.create(tmp_path / "axes", np.int8, (1,) * 100):
            pass
    assert os.listdir(tmp_path) == []


KILLED = """
import os, sys
import numpy as np, vortex
with vortex.create(sys.argv[1], np.int8, 100) as f:
    f[:] = 1
    os.kill(os.getpid(), 9)
"""


def test_a_killed_creator_leaves_nothing(tmp_path):
    try:
        os.close(os.open(tmp_path, os.O_TMPFILE | os.O_RDWR))
    except OSError:
        pytest.skip("this file system has no files without a name")
    done = subprocess.run([sys.executable, "-c", KILLED, tmp_path / "new"], check=False)
    assert done.returncode == -9 and os.listdir(tmp_path) == []


def made(path, source):
    """Ways to a new file, each of which leaves one byte there."""
    with vortex.create(path, np.int8, 1) as f:
        f[:] = 7
    yield
    source.write_bytes(b"\7")
    vortex.partition(source, [path, f"{source}.rest"], [100], dtype="i1")
    yield


def test_what_is_replaced_passes_its_rights_on_and_links_stay(tmp_path):
    (tmp_path / "folder").mkdir()
    secret, link = tmp_path / "folder" / "secret", tmp_path / "link"
    link.symlink_to(secret)
    secret.write_bytes(b"old")
    secret.chmod(0o600)
    for _ in made(link, tmp_path / "source"):
        assert link.is_symlink() and secret.read_bytes() == b"\7" and secret.stat().st_mode & 0o777 == 0o600
        secret.write_bytes(b"old")
    assert os.listdir(tmp_path / "folder") == ["secret"]


def test_changes_in_place(numbers):
    path, a = numbers
    f = vortex.open(path, np.int64, "r+")
    f[10:20] = 7
    f.flush()
    a[10:20] = 7
    assert (np.fromfile(path, np.int64) == a).all()


def test_errors_name_errno_and_file(tmp_path):
    with pytest.raises(FileNotFoundError) as caught:
        vortex.open(tmp_path / "none", np.int8)
    assert caught.value.filename == str(tmp_path / "none") and caught.value.errno == errno.ENOENT
    (tmp_path / "odd").write_bytes(b"12345")
    with pytest.raises(ValueError, match="multiple"):
        vortex.open(tmp_path / "odd", np.int16)
    with pytest.raises(FileNotFoundError) as caught:
        with vortex.create(tmp_path / "no/folder", np.int8, 1):
            pass
    assert caught.value.filename == str(tmp_path / "no/folder")
    with pytest.raises(OSError) as caught:
        with vortex.create(tmp_path / "large", np.int8, 1 << 62):
            pass
    assert caught.value.filename == str(tmp_path / "large") and ".large" not in str(caught.value)
    assert sorted(os.listdir(tmp_path)) == ["odd"]
    (tmp_path / "empty").write_bytes(b"")
    assert vortex.open(tmp_path / "empty", np.int16).shape == (0,)


SUM = """
f = vortex.open(sys.argv[1], np.int64, memory=int(sys.argv[2]) << 20)
print(sum(int(f[i:i + 65536].sum()) for i in range(0, f.size, 65536)))
"""


@pytest.mark.parametrize("mib", [4, 32])
def test_memory_is_fixed(tmp_path, peak_of, mib):
    path = tmp_path / "large"
    a = np.arange(12 * MIB)
    a.tofile(path)
    kib, (total,) = peak_of(SUM, path, str(mib))
    # 96 MiB of file, beside code and tables.
    assert int(total) == a.sum() and 1024 < kib < (mib + 12) * 1024


FAULTHANDLER = """
import faulthandler, sys
import numpy as np, vortex
when = sys.argv[2]
if when == "before":
    faulthandler.enable()
f = vortex.open(sys.argv[1], np.int64)
if when == "after":
    faulthandler.enable()
    f = vortex.open(sys.argv[1], np.int64)
print(int(f.sum()))
"""


@pytest.mark.parametrize("when", ["before", "after"])
def test_faulthandler(numbers, when):
    path, a = numbers
    said = subprocess.run([sys.executable, "-c", FAULTHANDLER, path, when], stdout=subprocess.PIPE, text=True, check=True)
    assert int(said.stdout) == a.sum()
