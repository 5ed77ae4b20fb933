#!/usr/bin/env python3
"""Sorts lines with DuckDB (`pip install duckdb`) behind GNU sort's options, for `sort_lines --peer=`.

Takes --parallel=N, -S SIZE, -T DIR, -o FILE, -u and inputs; lines in the order of their bytes,
as LC_ALL=C. Other options are refused. Lines must hold none of the bytes 1 and 2.
"""

import argparse
import sys

import duckdb


def quoted(text):
    return "'" + text.replace("'", "''") + "'"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--parallel", type=int, default=2)
    parser.add_argument("-S", dest="memory", default="128M")
    parser.add_argument("-T", dest="folder", default=".")
    parser.add_argument("-o", dest="output", required=True)
    parser.add_argument("-u", dest="unique", action="store_true")
    parser.add_argument("inputs", nargs="+")
    options = parser.parse_args()

    memory = {"K": "KiB", "M": "MiB", "G": "GiB"}
    database = duckdb.connect()
    database.execute(f"SET threads = {options.parallel}")
    database.execute(f"SET memory_limit = {quoted(options.memory[:-1] + memory[options.memory[-1]])}")
    database.execute(f"SET temp_directory = {quoted(options.folder + '/duckdb_sort')}")
    database.execute("SET preserve_insertion_order = false")
    lines = (
        f"read_csv([{', '.join(map(quoted, options.inputs))}], columns = {{'line': 'VARCHAR'}}, header = false,"
        " auto_detect = false, delim = '\x01', quote = '', escape = '', nullstr = '\x02')"
    )
    distinct = "DISTINCT" if options.unique else ""
    database.execute(
        f"COPY (SELECT {distinct} line FROM {lines} ORDER BY line) TO {quoted(options.output)}"
        " (FORMAT csv, HEADER false, DELIMITER '\x01', QUOTE '', ESCAPE '')"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
