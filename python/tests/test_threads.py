"""Several threads in all calls at once, which no GIL keeps apart where there is none."""

import errno
import os
import sys
import sysconfig
import threading

import numpy as np
import pytest

import vortex

MIB = 1 << 20
THREADS = 4


def together(work):
    """Calls work(0), work(1), ... on threads of their own, all at once, and returns what they return."""
    begin, results, errors = threading.Barrier(THREADS), [None] * THREADS, []

    def run(place):
        begin.wait()
        try:
            results[place] = work(place)
        except BaseException as error:  # noqa: BLE001
            errors.append(error)

    threads = [threading.Thread(target=run, args=(place,)) for place in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return results


def test_importing_brings_back_no_gil():
    has_gil = getattr(sys, "_is_gil_enabled", lambda: True)()
    assert has_gil == (not sysconfig.get_config_var("Py_GIL_DISABLED"))


def test_arrays_in_memory(rng):
    arrays = [rng.integers(0, 1 << 62, 100_000 + place) for place in range(THREADS)]
    one = rng.standard_normal(100_000)
    names = rng.integers(97, 123, (10_000, 5), np.uint8).view("S5").reshape(-1)

    def work(place):
        for _ in range(5):
            own = arrays[place].copy()
            vortex.sort(own, threads=2)
            np.testing.assert_array_equal(own, np.sort(arrays[place]))
            np.testing.assert_array_equal(vortex.argsort(one, threads=2), np.argsort(one, kind="stable"))
            np.testing.assert_array_equal(vortex.sorted(names), np.sort(names))

    together(work)


def test_files_opened_read_and_closed(rng, tmp_path):
    a = rng.integers(0, 1 << 40, MIB // 8)

    def work(place):
        for turn in range(10):
            path = tmp_path / f"{place}.{turn}.npy"
            with vortex.create(path, a.dtype, a.shape, memory=8 * MIB) as made:
                made[:] = a + place
            with vortex.open(path, memory=8 * MIB) as f:
                assert f.sum() == a.sum() + place * a.size and (f.read(5, 5) == a[5:10] + place).all()

    together(work)


def test_views_that_other_threads_made_and_dropped(numbers):
    path, a = numbers
    f = vortex.open(path, np.int64, memory=8 * MIB)
    for _ in range(10):
        views = together(lambda place: f[place * 1000 : (place + 1) * 1000])
        assert [view.sum() for view in views] == [a[at : at + 1000].sum() for at in range(0, 4000, 1000)]
        with pytest.raises(BufferError, match=f"{THREADS} views"):
            f.close()
        together(lambda place: views.__setitem__(place, None))
    f.close()


def test_a_cut_file_is_told_to_each_thread_that_touches_its_own_place(numbers):
    path, a = numbers
    f = vortex.open(path, np.int64, memory=8 * MIB)
    os.truncate(path, 4096)

    def work(place):
        begin = (place + 1) * a.size // (THREADS + 1)
        try:
            f[begin : begin + 10].sum()
        except vortex.StreamError as error:
            return error.errno
        return None

    assert together(work) == [errno.ENODATA] * THREADS


def test_a_sorter_that_all_push_to(rng):
    arrays = [rng.integers(0, 1 << 62, 100_000) for _ in range(THREADS)]
    sorter = vortex.Sorter(np.int64, memory=4 * MIB)

    def work(place):
        for part in np.array_split(arrays[place], 20):
            sorter.push(part)
            len(sorter)

    together(work)
    assert len(sorter) == THREADS * 100_000
    np.testing.assert_array_equal(np.concatenate(list(sorter.blocks(50_000))), np.sort(np.concatenate(arrays)))


def test_sorts_of_files(rng, tmp_path):
    a = rng.integers(0, 1 << 62, MIB)
    np.save(tmp_path / "in.npy", a)

    def work(place):
        vortex.sort_file(tmp_path / "in.npy", tmp_path / f"{place}.npy", memory=4 * MIB, threads=2)
        return (np.load(tmp_path / f"{place}.npy") == np.sort(a)).all()

    assert all(together(work))
