"""Arrays in memory against numpy, Polars and PyArrow.

Every setting of a peer has a process of its own, since numpy and Polars read theirs when they are
imported. They are asked in turn, several times, and the best of their times counts: of the processor
for one thread, of the clock for all. Run as a program, this file is such a process.
"""

import json
import os
import subprocess
import sys
import time

KINDS = {
    "u64": ("sort", "argsort"),
    "i32": ("sort", "argsort"),
    "f32": ("sort", "argsort"),
    "f64": ("sort", "argsort"),
    "strings": ("sort", "argsort"),
    "pairs": ("sort",),
    "records": ("sort",),
}
ABOUT = {
    "f32": "of a normal distribution",
    "f64": "of a normal distribution",
    "strings": "of 12 letters; fixed bytes for numpy and vortex",
    "pairs": "structs of two u64 by the first; numpy by order=, and by argsort and take",
    "records": "structs of 100 bytes by the first ten; numpy by order=, and by argsort and take",
}
# numpy is slow with AVX-512 on some processors.
WITHOUT_AVX512 = {"NPY_DISABLE_CPU_FEATURES": "X86_V4 AVX512_ICL AVX512_SPR"}
PEERS = {
    "vortex": ("vortex", {}),
    "numpy": ("numpy", {}),
    "numpy, no AVX-512": ("numpy", WITHOUT_AVX512),
    "take": ("take", {}),
    "take, no AVX-512": ("take", WITHOUT_AVX512),
    "polars": ("polars", {}),
    "arrow": ("arrow", {}),
}


def made(kind, count):
    import numpy as np

    rng = np.random.default_rng(1)
    if kind == "u64":
        return rng.integers(0, (1 << 64) - 1, count, np.uint64, endpoint=True)
    if kind == "i32":
        return rng.integers(-(1 << 31), (1 << 31) - 1, count, np.int32, endpoint=True)
    if kind in ("f32", "f64"):
        return rng.standard_normal(count, kind.replace("f32", "float32").replace("f64", "float64"))
    if kind == "strings":
        return rng.integers(97, 123, (count, 12), np.uint8).view("S12").reshape(-1)
    dtype = np.dtype([("key", "u8"), ("value", "u8")] if kind == "pairs" else [("key", "S10"), ("rest", "S90")])
    # Keys without zeros at their ends, which numpy would take off.
    return rng.integers(1, 256, count * dtype.itemsize, np.uint8).view(dtype)


def call_of(peer, work, data, threads):
    """What brings the data into the state before a call, and the call. None: the peer has none."""
    import numpy as np

    by = data.dtype.names[0] if data.dtype.names else None
    if peer == "vortex":
        import vortex

        if work == "argsort":
            return (lambda: data), (lambda a: vortex.argsort(a, threads=threads))
        return data.copy, (lambda a: vortex.sort(a, by=by, threads=threads))
    if peer == "numpy":
        if work == "argsort":
            return (lambda: data), np.argsort
        return data.copy, ((lambda a: a.sort(order=by)) if by else (lambda a: a.sort()))
    if peer == "take":
        return by and ((lambda: data), (lambda a: a[np.argsort(a[by])]))
    if by and data.dtype.itemsize == 100:
        return None
    if peer == "polars":
        import polars as pl

        if by:
            frame = pl.DataFrame({name: data[name] for name in data.dtype.names})
            return (lambda: frame), (lambda a: a.sort(by))
        series = pl.Series(data.astype("U").tolist() if data.dtype.kind == "S" else data)
        return (lambda: series), (lambda a: a.arg_sort() if work == "argsort" else a.sort())
    import pyarrow as pa
    import pyarrow.compute as pc

    pa.set_cpu_count(threads or os.cpu_count())
    if by:
        table = pa.table({name: np.ascontiguousarray(data[name]) for name in data.dtype.names})
        return (lambda: table), (lambda a: a.sort_by(by))
    values = pa.array(data.astype("U").tolist() if data.dtype.kind == "S" else data)
    return (lambda: values), (lambda a: pc.sort_indices(a) if work == "argsort" else a.take(pc.sort_indices(a)))


def best_time(setup, call, seconds, clock):
    best, spent, started = float("inf"), 0, time.monotonic()
    while spent < 3 or (time.monotonic() - started < seconds and spent < 10000):
        data = setup()
        begin = clock()
        call(data)
        best = min(best, clock() - begin)
        spent += 1
        if time.monotonic() - started > 20 * seconds:
            break
    return best


def few_elements(peer, work, kind, seconds):
    """Seconds a call on ten elements."""
    import numpy as np

    data = made(kind, 10)
    if peer == "vortex":
        import vortex

        call = vortex.sort if work == "sort" else vortex.argsort
    else:
        call = np.ndarray.sort if work == "sort" else np.argsort
    best, started, calls = float("inf"), time.monotonic(), 2000
    while time.monotonic() - started < seconds:
        begin = time.process_time()
        for _ in range(calls):
            call(data)
        best = min(best, (time.process_time() - begin) / calls)
    return best


def serve():
    held = None
    for line in sys.stdin:
        peer, work, kind, count, threads, seconds = json.loads(line)
        if count == 10:
            print(few_elements(peer, work, kind, seconds), flush=True)
            continue
        if held is None or held[0] != (kind, count):
            held = ((kind, count), made(kind, count))
        calls = call_of(peer, work, held[1], threads)
        clock = time.process_time if threads == 1 else time.perf_counter
        print(best_time(*calls, seconds, clock) if calls else "null", flush=True)


class Peers:
    """The processes, which are made when they are first asked."""

    def __init__(self):
        self._processes = {}

    def ask(self, name, work, kind, count, threads, seconds):
        peer, settings = PEERS[name]
        key = (peer, tuple(settings), threads)
        if key not in self._processes:
            variables = {**os.environ, **settings}
            if threads:
                variables["POLARS_MAX_THREADS"] = str(threads)
            self._processes[key] = subprocess.Popen(
                [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=variables)
        process = self._processes[key]
        process.stdin.write(json.dumps([peer, work, kind, count, threads, seconds]) + "\n")
        process.stdin.flush()
        said = process.stdout.readline()
        if not said:
            raise RuntimeError(f"the process of {name} has ended")
        return json.loads(said)

    def close(self):
        for process in self._processes.values():
            process.stdin.close()
            process.wait()
        self._processes.clear()


def best_of(peers, names, work, kind, count, threads, rounds, seconds):
    times = {}
    for _ in range(rounds):
        for name in names:
            took = peers.ask(name, work, kind, count, threads, seconds)
            if took is not None:
                times[name] = min(times.get(name, took), took)
    return times


def table_of(peers, work, kind, sizes, threads, rounds, seconds):
    """Lines of a page: M elements/s of each peer, and how many times those of the best numpy."""
    names = [name for name in PEERS if KINDS[kind] == ("sort",) or not name.startswith("take")]
    yield f"## {work} of {kind}{', ' + ABOUT[kind] if kind in ABOUT else ''}, {'one thread' if threads == 1 else 'all threads'}"
    yield ""
    yield f"| n | {' | '.join(names)} | of the best numpy |"
    yield "|---|" + "--:|" * (len(names) + 1)
    for lg in sizes:
        times = best_of(peers, names, work, kind, 1 << lg, threads, rounds, seconds)
        best = min(took for name, took in times.items() if name.startswith(("numpy", "take")))
        rates = " | ".join(f"{(1 << lg) / times[name] / 1e6:.3g}" if name in times else "" for name in names)
        yield f"| 2^{lg} | {rates} | {best / times['vortex']:.2f} |"
    yield ""


def small_table(peers, rounds, seconds):
    yield "## Ten elements, microseconds a call"
    yield ""
    yield "| call | vortex | numpy | more |"
    yield "|---|--:|--:|--:|"
    for kind in ("u64", "i32", "f64"):
        for work in KINDS[kind]:
            times = best_of(peers, ("vortex", "numpy"), work, kind, 10, 1, rounds, seconds)
            ours, theirs = times["vortex"] * 1e6, times["numpy"] * 1e6
            yield f"| {work} of {kind} | {ours:.2f} | {theirs:.2f} | {ours - theirs:.2f} |"
    yield ""


def tables(kinds, sizes, threads, rounds, seconds):
    peers = Peers()
    try:
        yield from small_table(peers, rounds, seconds)
        for kind in kinds:
            for work in KINDS[kind]:
                for number in threads:
                    yield from table_of(peers, work, kind, sizes, number, rounds, seconds)
    finally:
        peers.close()


if __name__ == "__main__":
    serve()
