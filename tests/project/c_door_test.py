#!/usr/bin/env python3
"""Fails where C lacks what C++ has: a public struct of options or of what was done whose fields no list
of capi/ has, and a function of the headers for C that no test in C calls.

  c_door_test.py ROOT

That the lists have every field of their structs is checked by the compiler (capi/stream/fields.h).
"""

import pathlib
import re
import sys

from rooms import say

STRUCT = re.compile(r"^ *struct (?:VORTEX_EXPORT )?(\w*(?:Options|Report|Statistics|Progress|Counts|Resources|Overlap"
                    r"|Memory|Speed|Disorder|Key|Part|Limits|Plan|Request|Buffers))(?: : \w+)? \{", re.MULTILINE)
# Structs that C has in another way, or needs not.
LEFT_OUT = {
    "BucketSortOptions": "the sort by faults alone that vtx_vanishing_sort() is measured against",
    "BucketSortReport": "what that sort did",
    "CommitStreamOptions": "the baseline that pipes are measured against",
    "LineKey": "what the text of a key says, for programs that show their users which bytes it takes",
    "MemoryLimits": "what the default of memory_bytes is made from",
    "TimedReaderOptions": "deadlines are a function of the program, called under a lock; nobody has asked for it in C",
    "TimedReaderStatistics": "of those readers",
    "TimedReadersOptions": "their group",
    "TimedReadersStatistics": "their group",
    "SortPlan": "vtx_plan_files() and vtx_plan_lines() have it as text",
}


def main():
    root = pathlib.Path(sys.argv[1])
    lists = " ".join("".join(path.read_text() for path in (root / "capi").rglob("*.h")).split())
    listed = {name.split("::")[-1] for name in re.findall(r"FIELDS_OF\(\s*vtx_\w+,\s*([\w:]+),", lists)}
    complaints, structs = [], 0
    public = root / "include/vortex"
    for header in sorted([*public.glob("*.h"), *public.glob("files/*.h")]):
        text = header.read_text()
        for name in STRUCT.findall(text):
            structs += 1
            known = name in listed
            if known == (name in LEFT_OUT):
                complaints.append(f"{header.name}: {name} has {'a' if known else 'no'} list of fields in capi/"
                                  f"{' and is left out of it' if known else ''}")
    called = "".join(path.read_text() for path in (root / "tests/capi").glob("*.[ch]"))
    functions = 0
    for header in sorted((root / "include/vortex/c").glob("*.h")):
        code = re.sub(r"//.*", "", header.read_text())
        for name in re.findall(r"VORTEX_EXPORT [^;(]*?\b(vtx_\w+)\(", code):
            functions += 1
            # One macro calls the sorts of a type of numbers and of its pairs.
            sorts = re.fullmatch(r"vtx_sort_(?:pairs_)?([iuf]\d\d)", name)
            if not re.search(rf"\b{name}\(" if not sorts else rf"\bSORTS_OF_NUMBERS\(.*, {sorts.group(1)}\)", called):
                complaints.append(f"{header.name}: no test in C calls {name}()")
    if structs < 30 or functions < 100:
        complaints.append(f"{structs} structs and {functions} functions: this test reads the headers wrongly")
    return say(complaints, f"the door for C: {structs} structs, {functions} functions")


if __name__ == "__main__":
    sys.exit(main())
