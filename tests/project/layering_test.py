#!/usr/bin/env python3
"""Fails on an include that points the wrong way.

  layering_test.py ROOT

The rooms are layers, vortex/ < io/ < sort/ < cli/, and a room includes from itself and from the
rooms below it. Includes of our own are written from the root ("include/vortex/block_pool.h"), so that the
installed headers read the same. A library of somebody else belongs to one room.
"""

import pathlib
import re
import sys

LAYERS = ["vortex", "io", "sort", "cli"]
BELONGS_TO = {
    "sigsegv.h": ["vortex"],
    "liburing.h": ["io"],
    "CLI/": ["cli"],
    "fmt/": ["cli"],
    "nlohmann/": ["cli"],
    "xxhash.h": ["cli"],
}
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')


def complaints_about(root, room, line):
    """What is wrong with one line of a file in `room`."""
    match = INCLUDE.match(line)
    if not match:
        return
    quote, name = match.groups()
    first = name.split("/")[0]
    if quote == '"':
        if first not in LAYERS + ["tests", "bench", "examples"]:
            yield f'"{name}" is not written from the root of the repository'
        elif not (root / name).is_file():
            yield f'"{name}" does not exist'
        elif room in LAYERS and first not in LAYERS[: LAYERS.index(room) + 1]:
            yield f'"{name}" is above {room}/ ({" < ".join(LAYERS)})'
    elif first in LAYERS and (root / name).is_file():
        yield f"<{name}> is ours: write it with quotes"
    for prefix, rooms in BELONGS_TO.items():
        outside = room in LAYERS and room not in rooms
        if outside and (name == prefix or (prefix.endswith("/") and name.startswith(prefix))):
            yield f"{name} belongs to {', '.join(rooms)}/ alone"


def check(root):
    errors, files = [], 0
    for room in LAYERS + ["tests", "bench", "examples"]:
        for path in sorted((root / room).rglob("*")):
            if path.suffix not in (".h", ".cc", ".c"):
                continue
            files += 1
            lines = path.read_text(encoding="utf-8").splitlines()
            for number, line in enumerate(lines, start=1):
                for complaint in complaints_about(root, room, line):
                    errors.append(f"{path.relative_to(root)}:{number}: {complaint}")
    return errors, files


def main():
    errors, files = check(pathlib.Path(sys.argv[1]))
    for error in errors:
        print(error)
    print(f"layering: {files} files, {len(errors)} wrong includes")
    sys.exit(1 if errors or not files else 0)


if __name__ == "__main__":
    main()
