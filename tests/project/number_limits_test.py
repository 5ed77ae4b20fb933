#!/usr/bin/env python3
"""Fails on a number that callers of the library may give and that no test tries with its least and
largest values: a field of a struct of options, or a parameter of a call in C.

  number_limits_test.py ROOT

The tests list them in tables: FIELD(Struct, field, ...) in C++, NUMBER(struct, field, ...) in C.
"""

import itertools
import pathlib
import re
import sys

from rooms import say

TABLES = ["tests/io/stream_limits_test.cc", "tests/lines/sort_limits_test.cc"]
TABLE_OF_C = "tests/capi/c_limits_test.c"
# The types of numbers whose sorts it takes from a table of them all.
NUMBERS_OF_C = "tests/capi/numbers.h"
# What the library tells, and what it makes.
TOLD = re.compile(r"(Statistics|Report|Counts|Progress|Limits|Memory|Overlap|Plan|Buffers|Speed|"
                  r"Disorder|Block|BlockGrant|Status|Failure|Taken|Window|KeyValue|MergeInput|"
                  r"RecordIndex|MergeRoom|LineKey|RunFormationOptions|OutOfOrder|End|Fault|Part)$")
TOLD_IN_C = re.compile(r"vtx_(sort_progress|sort_overlap|disk_speed|line_disorder|\w+_report|\w+_counts|pair_\w+)$")
NUMBER = re.compile(r"^\s*(?:std::optional<)?(?:std::size_t|std::uint64_t|unsigned|int|StaleBlocks|"
                    r"size_t|uint64_t)>?\s+(\w+)\s*(?:=|;|$)", re.MULTILINE)


def without_comments(text):
    return re.sub(r"//[^\n]*", "", text)


def without_plumbing(text):
    """Nobody gives what lies in the namespace `detail` of a public header."""
    return re.sub(r"^namespace detail \{$.*?^\}  // namespace detail$", "", text, flags=re.MULTILINE | re.DOTALL)


def structs_in(text):
    """(name, body without nested braces) of each struct at the outer level."""
    for match in re.finditer(r"^(?:typedef )?struct (?:VORTEX_EXPORT )?(\w+)(?: : [\w:]+)? \{\n(.*?)^\}",
                             text, re.MULTILINE | re.DOTALL):
        yield match.group(1), re.sub(r"\{[^{}]*\}", "", match.group(2))


def main():
    root = pathlib.Path(sys.argv[1])
    complaints = []
    tables = "".join((root / table).read_text() for table in TABLES)
    table_of_c = (root / TABLE_OF_C).read_text()
    numbers_of_c = (root / NUMBERS_OF_C).read_text() if "type->sort_pairs" in table_of_c else ""
    seen = 0
    headers = (root / "include/vortex").glob("*.h"), (root / "include/vortex/c").glob("*.h")
    for header in sorted(itertools.chain(*headers)):
        text = without_comments(without_plumbing(header.read_text()))
        in_c = header.parent.name == "c"
        for struct, body in structs_in(text):
            if (TOLD_IN_C if in_c else TOLD).search(struct):
                continue
            for field in NUMBER.findall(body):
                seen += 1
                kind, table = ("NUMBER", table_of_c) if in_c else ("FIELD", tables)
                if not re.search(rf"\b{kind}\({struct},\s+{field},", table):
                    complaints.append(f"{header.name}: no test tries {struct}::{field}")
        if not in_c:
            continue
        for call, parameters in re.findall(r"VORTEX_EXPORT [\w ]+[ *](vtx_\w+)\(([^;]*)\);", text):
            takes_number = re.search(r"\b(size_t|uint64_t|int) \w+|\*\*", parameters)
            if not takes_number:
                continue
            seen += 1
            sorts = re.fullmatch(r"vtx_sort_(?:pairs_)?([iuf]\d\d)", call)
            tried = (re.search(rf"^SORTS_OF_NUMBERS\(.*, {sorts.group(1)}\)$", numbers_of_c, re.MULTILINE)
                     if sorts else re.search(rf"\b{call}\(", table_of_c))
            if not tried:
                complaints.append(f"{header.name}: no test tries the numbers of {call}()")
    if seen < 100:
        complaints.append(f"only {seen} numbers were found: this test reads the headers wrongly")
    return say(complaints, f"numbers: {seen}")


if __name__ == "__main__":
    sys.exit(main())
