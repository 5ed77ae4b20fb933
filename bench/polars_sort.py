#!/usr/bin/env python3
"""Sorts lines with Polars (`pip install polars`) behind GNU sort's options, as bench/duckdb_sort.py does with DuckDB.

Takes --parallel=N, -S SIZE (which Polars does not know), -T DIR, -o FILE, -u and inputs; lines in the order of their
bytes, as LC_ALL=C. Lines must not hold the byte 1.
"""

import argparse
import os


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--parallel", default="2")
    parser.add_argument("-S", dest="memory")
    parser.add_argument("-T", dest="folder", default=".")
    parser.add_argument("-o", dest="output", required=True)
    parser.add_argument("-u", dest="unique", action="store_true")
    parser.add_argument("inputs", nargs="+")
    options = parser.parse_args()

    os.environ["POLARS_MAX_THREADS"] = options.parallel
    os.environ["POLARS_TEMP_DIR"] = options.folder
    import polars  # reads these

    lines = polars.scan_csv(options.inputs, has_header=False, new_columns=["line"], separator="\x01",
                            quote_char=None, schema={"line": polars.String})  # fmt: skip
    if options.unique:
        lines = lines.unique()
    lines.sort("line").sink_csv(options.output, include_header=False, separator="\x01", quote_style="never")


if __name__ == "__main__":
    main()
