#!/usr/bin/env python3
"""Measures the Python package against its peers and prints a page of results: `./dev bench python`."""

import argparse
import importlib.metadata
import os
import pathlib
import platform
import re
import shutil
import sys
import tempfile

import arrays
import files


def numbers(text):
    return [int(one) for one in text.split(",")]


def options_of(arguments):
    parser = argparse.ArgumentParser(
        prog="./dev bench python", formatter_class=argparse.ArgumentDefaultsHelpFormatter,
        description="Arrays and files sorted and read from Python, against numpy, Polars, PyArrow and DuckDB. "
                    "As it stands it takes three minutes; --full takes hours.")
    parser.add_argument("--only", default="arrays,sorts,reading", help="these parts alone")
    parser.add_argument("--kinds", default=",".join(arrays.KINDS), help="of elements")
    parser.add_argument("--lg", type=numbers, default=[10, 14, 17, 20], help="sizes of arrays, as powers of two")
    parser.add_argument("--threads", type=numbers, default=[1], help="0: all; times are then those of the clock")
    parser.add_argument("--rounds", type=int, default=2, help="how often each peer is asked; the best time counts")
    parser.add_argument("--seconds", type=float, default=0.1, help="for a peer and an array, each time")
    parser.add_argument("--mib", type=int, default=256, help="of u64, and of records of 100 bytes")
    parser.add_argument("--memory-mib", type=int, default=64, help="to sort these in")
    parser.add_argument("--table-mib", type=int, default=128, help="of rows in Parquet")
    parser.add_argument("--table-memory-mib", type=int, default=64, help="to sort these in")
    parser.add_argument("--read-mib", type=int, default=512, help="of the file that is read")
    parser.add_argument("--read-memory-mib", type=int, default=64, help="to read it in")
    parser.add_argument("--longest", type=int, default=900, help="seconds until a sort of files is stopped")
    parser.add_argument("--folder", default=".", help="on whose disk files are made")
    parser.add_argument("--output", help="a file for the page, too")
    parser.add_argument("--full", action="store_true",
                        help="2^10 to 2^26, one thread and all, 4 GiB in 512 MiB, 2 GiB of Parquet in 256, 8 GiB in 64")
    options = parser.parse_args(arguments)
    if options.full:
        options.lg, options.threads, options.rounds = list(range(10, 27, 2)), [1, 0], 3
        options.mib, options.memory_mib = 4096, 512
        options.table_mib, options.table_memory_mib, options.read_mib = 2048, 256, 8192
    return options


def heading():
    model = re.search(r"model name\s*:\s*(.*)", pathlib.Path("/proc/cpuinfo").read_text())
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}"
                         for name in ("vortex-streams", "numpy", "polars", "pyarrow", "duckdb"))
    yield "# The Python package against its peers"
    yield ""
    yield f"Machine: {model.group(1) if model else platform.processor()}, {len(os.sched_getaffinity(0))} processors, " \
          f"Linux {platform.release()}; Python {platform.python_version()}, {versions}."
    yield f"Command: `./dev bench python {' '.join(sys.argv[1:])}`."
    yield "Arrays in M elements/s: processor time for one thread, time of the clock for all, the best of several."
    yield "Files: without imports; all write Parquet by Snappy; vortex alone waits until its output is on the disk (fsync)."
    yield ""


def lines(options, folder):
    parts = options.only.split(",")
    yield from heading()
    if "arrays" in parts:
        yield from arrays.tables(options.kinds.split(","), options.lg, options.threads, options.rounds, options.seconds)
    if "sorts" in parts:
        yield from files.sort_tables(folder, options.mib, options.memory_mib, options.table_mib, options.table_memory_mib,
                                     options.rounds, options.longest)
    if "reading" in parts:
        yield from files.reading_table(folder, options.read_mib, options.read_memory_mib, options.rounds)


def main():
    options = options_of(sys.argv[1:])
    folder = pathlib.Path(tempfile.mkdtemp(prefix="vortex-bench-", dir=options.folder))
    page = []
    try:
        for line in lines(options, folder):
            print(line, flush=True)
            page.append(line)
    finally:
        shutil.rmtree(folder)
    if options.output:
        pathlib.Path(options.output).write_text("\n".join(page) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
