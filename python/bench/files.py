"""Files larger than the memory that a sort or a reader may take, against Polars, DuckDB and numpy.memmap.

All write Parquet by Snappy; vortex alone waits until its output is on the disk (fsync).

Every job is a process of its own, whose peak is its own. Run as a program, this file is such a process.
"""

import importlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

MIB = 1 << 20
PIECE = 1 << 20
# What an interpreter with numpy takes before it does anything.
INTERPRETER_MIB = 96


def make_raw(path, dtype, mib):
    import numpy as np

    dtype, rng = np.dtype(dtype), np.random.default_rng(2)
    left = mib * MIB // dtype.itemsize
    with open(path, "wb") as file:
        while left > 0:
            some = min(left, PIECE)
            file.write(rng.integers(1, 256, some * dtype.itemsize, np.uint8))
            left -= some


def make_parquet(path, columns, mib):
    """Columns by name: numpy dtypes of random bits, or "name", which is a string of few letters."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng, writer = np.random.default_rng(3), None
    bytes_of = {name: 12 if kind == "name" else np.dtype(kind).itemsize for name, kind in columns.items()}
    left = mib * MIB // sum(bytes_of.values())
    while left > 0:
        some, parts = min(left, PIECE), {}
        for name, kind in columns.items():
            if kind == "name":
                letters = rng.integers(97, 123, (some, 12), np.uint8)
                parts[name] = pa.array(letters.view("S12").reshape(-1).astype("U"))
            else:
                raw = rng.integers(1, 256, some * bytes_of[name], np.uint8)
                parts[name] = pa.array(raw.view(kind) if np.dtype(kind).kind != "S" else raw.view(kind).tolist())
        table = pa.table(parts)
        writer = writer or pq.ParquetWriter(path, table.schema)
        writer.write_table(table)
        left -= some
    writer.close()


def forget(path):
    """Takes the file out of the page cache."""
    descriptor = os.open(path, os.O_RDONLY)
    os.fsync(descriptor)
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(descriptor)


def sort_raw(src, dst, memory, dtype, key):
    import numpy as np
    import vortex

    vortex.sort_file(src, dst, dtype=np.dtype([tuple(one) for one in dtype] if isinstance(dtype, list) else dtype),
                     key=key, memory=memory)


def sort_by_vortex(src, dst, memory, key):
    import vortex

    vortex.sort_table(src, dst, key, memory=memory, compression="snappy")


def sort_by_duckdb(src, dst, memory, key):
    import duckdb

    database = duckdb.connect()
    database.execute(f"SET memory_limit = '{memory // MIB}MiB'")
    database.execute(f"SET temp_directory = '{dst}.spilled'")
    database.execute("SET preserve_insertion_order = false")
    database.execute(f"COPY (SELECT * FROM read_parquet('{src}') ORDER BY {key}) TO '{dst}' (FORMAT parquet, COMPRESSION snappy)")


def sort_by_polars(src, dst, memory, key):
    import polars as pl

    pl.scan_parquet(src).sort(key).sink_parquet(dst, compression="snappy")


def read(way, work, path, memory):
    import numpy as np
    import vortex

    a = vortex.open(path, np.uint64, memory=memory) if way == "vortex" else np.memmap(path, np.uint64, "r")
    if work == "sum":
        total = np.uint64(0)
        for begin in range(0, a.size, PIECE):
            total += a[begin : begin + PIECE].sum()
    else:
        rows = a[: a.size // 512 * 512].reshape(-1, 512)
        places = np.random.default_rng(4).integers(0, len(rows), 2000)
        total = sum(int(rows[place].sum()) for place in places)
    return int(total) & ((1 << 64) - 1)


CALLS = {"sort_raw": sort_raw, "vortex": sort_by_vortex, "duckdb": sort_by_duckdb, "polars": sort_by_polars, "read": read}
MODULES = {"sort_raw": ("vortex",), "vortex": ("vortex", "pyarrow.parquet"), "duckdb": ("duckdb",), "polars": ("polars",),
           "read": ("vortex",)}


def work():
    group, call, arguments = json.loads(sys.argv[1])
    if group:
        pathlib.Path(group, "cgroup.procs").write_text(str(os.getpid()))
    # Not measured: what is imported first.
    for module in MODULES[call]:
        importlib.import_module(module)
    begin, processor = time.perf_counter(), time.process_time()
    result = CALLS[call](*arguments)
    took = time.perf_counter() - begin
    peak = int(re.search(r"VmHWM:\s*(\d+)", pathlib.Path("/proc/self/status").read_text()).group(1))
    print(json.dumps([took, time.process_time() - processor, peak / 1024, result]))


class MemoryGroup:
    """A control group with a limit; `path` is None where none can be made."""

    def __init__(self, mib):
        self.path = None
        own = dict(line.strip().split(":", 2)[1:] for line in open("/proc/self/cgroup"))
        for root, folder, limit in (("/sys/fs/cgroup", own.get(""), "memory.max"),
                                    ("/sys/fs/cgroup/memory", own.get("memory"), "memory.limit_in_bytes")):
            for parent in (pathlib.Path(root + (folder or "/")), pathlib.Path(root)):
                group = parent / f"vortex-bench-{os.getpid()}"
                try:
                    group.mkdir()
                except OSError:
                    continue
                # Elsewhere it is an ordinary folder.
                if (group / limit).exists():
                    (group / limit).write_text(str(mib * MIB))
                    self.path = group
                    return
                group.rmdir()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.path:
            self.path.rmdir()


def run(call, *arguments, group=None, longest=None):
    """Seconds, those of the processor, the peak in MiB, and the result; None where it was killed."""
    command = [sys.executable, __file__, json.dumps([str(group) if group else "", call, arguments])]
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False, timeout=longest)
    except subprocess.TimeoutExpired:
        raise RuntimeError(f"stopped after {longest} s") from None
    if done.returncode == -9:
        return None
    if done.returncode != 0:
        said = [line for line in done.stderr.splitlines() if re.match(r"[\w.]*(Error|Exception)\b", line)]
        raise RuntimeError(said[-1] if said else f"{call} ended with status {done.returncode}")
    return json.loads(done.stdout)


def line_of(name, rounds, path, call, *arguments, group=None, output=None, longest=None):
    best = None
    for _ in range(rounds):
        forget(path)
        try:
            done = run(call, *arguments, group=group, longest=longest)
        except RuntimeError as error:
            return f"| {name} | {error} | | |", None
        finally:
            if output:
                pathlib.Path(output).unlink(missing_ok=True)
                # What a peer that was stopped has spilled.
                shutil.rmtree(f"{output}.spilled", ignore_errors=True)
        if done is None:
            return f"| {name} | killed for memory | | |", None
        if best is None or done[0] < best[0]:
            best = done
    return f"| {name} | {best[0]:.2f} | {best[1]:.2f} | {best[2]:.0f} |", best


HEAD = ["", "| | s | processor s | peak MiB |", "|---|--:|--:|--:|"]


def sort_tables(folder, raw_mib, memory_mib, table_mib, table_memory_mib, rounds, longest):
    record = [["key", "S10"], ["rest", "S90"]]
    jobs = [(f"u64, {raw_mib} MiB", "u8", None, {"key": "u8"}, raw_mib, memory_mib),
            (f"records of 100 bytes, {raw_mib} MiB", record, "key", {"key": "S10", "rest": "S90"}, raw_mib, memory_mib),
            (f"Parquet of u64, f64 and names, {table_mib} MiB", None, "key",
             {"key": "u8", "value": "f8", "name": "name"}, table_mib, table_memory_mib)]
    raw, parquet, output = folder / "raw", folder / "rows.parquet", str(folder / "sorted.parquet")
    for title, dtype, key, columns, mib, memory in jobs:
        yield f"## Files: {title} in {memory} MiB"
        yield from HEAD
        if dtype:
            make_raw(raw, [tuple(one) for one in dtype] if isinstance(dtype, list) else dtype, mib)
            yield line_of("vortex.sort_file, raw", rounds, raw, "sort_raw", str(raw), output, memory * MIB, dtype, key,
                          output=output, longest=longest)[0]
            raw.unlink()
        make_parquet(parquet, columns, mib)
        for peer in ("vortex", "duckdb", "polars"):
            yield line_of(f"{peer}, Parquet", rounds, parquet, peer, str(parquet), output, memory * MIB, "key",
                          output=output, longest=longest)[0]
        with MemoryGroup(memory + INTERPRETER_MIB) as group:
            if group.path:
                yield line_of(f"polars in a group of {memory + INTERPRETER_MIB} MiB", 1, parquet, "polars", str(parquet),
                              output, 0, "key", group=group.path, output=output, longest=longest)[0]
        parquet.unlink()
        yield ""


def reading_table(folder, mib, memory_mib, rounds):
    limit = memory_mib + INTERPRETER_MIB
    path = folder / "numbers"
    make_raw(path, "u8", mib)
    with MemoryGroup(limit) as group:
        where = f"a control group of {limit} MiB" if group.path else "no control group, which cannot be made here"
        yield f"## Reading a file of {mib} MiB in {memory_mib} MiB, in {where}"
        yield from HEAD
        for work_name in ("sum", "rows"):
            results = set()
            for way in ("vortex", "memmap"):
                line, best = line_of(f"{work_name}: {way}", rounds, path, "read", way, work_name, str(path),
                                     memory_mib * MIB, group=group.path)
                yield line
                if best:
                    results.add(best[3])
            if len(results) > 1:
                raise RuntimeError(f"{work_name}: the results differ")
        yield ""
    path.unlink()


if __name__ == "__main__":
    work()
