#!/usr/bin/env python3
"""Fails on an include that points the wrong way, on a room that is not described, on a file that
strangers would miss, and on a message of the library that names a flag of the program.

  layering_test.py ROOT

The rooms are layers. A room includes from itself, from the rooms below it in its part of the house,
from the parts below, and from the public headers with their templates in include/vortex/detail/.
The latter two include each other alone, and of the system what C++ has. Includes of our own are
written in full ("vortex/os/futex.h"), so that every file reads the same wherever it lies. A library
of somebody else belongs to one room.

Each room has a README.md of at most 15 lines that names each of its files once, in reading order:
a file comes after those of the same room that it includes.
"""

import pathlib
import re
import sys

# The parts of the house, from the lowest, and the rooms of each, from the lowest.
PARTS = {
    "vortex": ["vortex/os", "vortex/fault", "vortex/pool", "vortex/stream"],
    "io": ["io/disk", "io/file"],
    "sort": ["sort/record", "sort/memory", "sort/vanishing", "sort/runs", "sort/merge", "sort/job"],
    "lines": ["lines/keys", "lines"],
    "capi": ["capi"],
    "study": ["study"],
    "cli": ["cli"],
}
PUBLIC = "include/vortex"
# The templates that public headers compile into programs: installed, and not for users to include.
DETAIL = "include/vortex/detail"
# Who may see whom beside: the program has no business with models and simulations.
NOT_BELOW = {("cli", "study"), ("study", "capi"), ("cli", "capi")}
USERS = ["tests", "bench", "examples"]
# A stranger's programs: they include as users do, and have folders named like ours.
STRANGERS = pathlib.PurePath("tests/project/consumer")
BELONGS_TO = {
    "sigsegv.h": ["vortex/fault"],
    "liburing.h": ["io/disk"],
    "lz4.h": ["lines"],
    "CLI/": ["cli"],
    "fmt/": ["cli"],
    "nlohmann/": ["cli"],
    "xxhash.h": ["cli"],
}
# Public headers use, beside the C++ library: guarded() jumps, vanishing sorts give way to another
# thread, every x86-64 has SSE2, and C names its types in headers of its own.
OUTSIDE = ["setjmp.h", "sched.h", "emmintrin.h", "stddef.h", "stdint.h"]
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
SOURCES = (".h", ".cc", ".c")
MAX_README_LINES = 15

ROOMS = [room for rooms in PARTS.values() for room in rooms]


def part_of(room):
    return room.split("/")[0]


def resolve(root, name):
    """The file that an include of ours means, relative to the root."""
    for folder in ("", "include/"):
        if (root / (folder + name)).is_file():
            return folder + name
    return None


def may_include(room, other):
    """Whether a file of `room` may include one of `other`. Public headers have no room."""
    if room == other or other in (PUBLIC, DETAIL):
        return True
    if room in (PUBLIC, DETAIL):
        return False
    if (part_of(room), part_of(other)) in NOT_BELOW:
        return False
    return ROOMS.index(other) < ROOMS.index(room)


def complaints_about(root, room, line):
    """What is wrong with one line of a file in `room`."""
    match = INCLUDE.match(line)
    if not match:
        return
    quote, name = match.groups()
    first = name.split("/")[0]
    if quote == '"':
        target = resolve(root, name)
        if target is None:
            yield f'"{name}" is not written in full, or does not exist'
        else:
            other = str(pathlib.PurePath(target).parent)
            housed = room in ROOMS or room in (PUBLIC, DETAIL)
            if housed and other not in ROOMS and other not in (PUBLIC, DETAIL):
                yield f'"{name}" is in no room of the house'
            elif housed and not may_include(room, other):
                yield f'"{name}" is not below {room}/'
    elif first in list(PARTS) and resolve(root, name):
        yield f"<{name}> is ours: write it with quotes"
    elif quote == "<" and room in (PUBLIC, DETAIL) and name.endswith(".h") and name not in OUTSIDE:
        yield f"<{name}> stands between users and the C++ library"
    for prefix, rooms in BELONGS_TO.items():
        outside = (room in ROOMS or room in (PUBLIC, DETAIL)) and room not in rooms
        if outside and (name == prefix or (prefix.endswith("/") and name.startswith(prefix))):
            yield f"{name} belongs to {', '.join(rooms)}/ alone"


LITERAL = re.compile(r'"((?:[^"\\\\]|\\\\.)*)"')
FLAG = re.compile(r"(?:^|[\s(`'])(-[a-zA-Z]|--[a-z][-a-z]*)(?=$|[\s)`',.:;=])")
# The shell: a way out of a limit that it sets.
OTHERS_FLAGS = re.compile(r"ulimit -[a-z]|sysctl -w")


def flags_named_in(line):
    """The program's flags in the string literals of a line."""
    if line.lstrip().startswith(("//", "#")):
        return
    for literal in LITERAL.findall(line):
        for flag in FLAG.findall(OTHERS_FLAGS.sub("", literal)):
            yield f"a message of the library names the flag {flag} of the program"


def check_includes(root):
    errors, files = [], 0
    for top in [PUBLIC, *PARTS, *USERS]:
        for path in sorted((root / top).rglob("*")):
            inside = path.relative_to(root)
            if path.suffix not in SOURCES or STRANGERS in inside.parents:
                continue
            files += 1
            room = str(inside.parent)
            if top in PARTS and room not in ROOMS:
                errors.append(f"{inside}: there is no room {room}/")
            lines = path.read_text(encoding="utf-8").splitlines()
            for number, line in enumerate(lines, start=1):
                complaints = list(complaints_about(root, room, line))
                library = room in ROOMS and room not in ("cli", "study")
                if library or room in (PUBLIC, DETAIL):
                    complaints += flags_named_in(line)
                for complaint in complaints:
                    errors.append(f"{inside}:{number}: {complaint}")
    return errors, files


def concepts(root, room):
    """The files of a room without their endings, each with those of the room that it includes."""
    found = {}
    for path in sorted((root / room).glob("*")):
        if path.suffix not in SOURCES:
            continue
        uses = found.setdefault(path.stem, set())
        for line in path.read_text(encoding="utf-8").splitlines():
            match = INCLUDE.match(line)
            target = match and resolve(root, match.group(2))
            if target and pathlib.PurePath(target).suffix == ".h":
                other = pathlib.PurePath(target)
                if str(other.parent) == room and path.suffix == ".h":
                    uses.add(other.stem)
    return found


def check_readmes(root):
    errors = []
    for room in [DETAIL, *ROOMS]:
        file = root / room / "README.md"
        if not file.is_file():
            if room != "cli":
                errors.append(f"{room}/README.md is missing")
            continue
        text = file.read_text(encoding="utf-8")
        if len(text.splitlines()) > MAX_README_LINES:
            errors.append(f"{room}/README.md has more than {MAX_README_LINES} lines")
        named = re.findall(r"`(\w+)`", text)
        files = concepts(root, room)
        for name in sorted(set(files) - set(named)):
            errors.append(f"{room}/README.md does not name `{name}`")
        for name in sorted(set(named) - set(files)):
            errors.append(f"{room}/README.md names `{name}`, which is not there")
        for name in {name for name in named if named.count(name) > 1}:
            errors.append(f"{room}/README.md names `{name}` twice")
        for name, uses in files.items():
            for other in uses - {name}:
                if name in named and other in named and named.index(other) > named.index(name):
                    errors.append(f"{room}/README.md: `{name}` includes `{other}`, named behind it")
    return errors


def check_lists(root):
    """A file that a list forgets is missed by strangers alone: our own build is Meson's, in place."""
    errors = []
    cmake = (root / "CMakeLists.txt").read_text(encoding="utf-8")
    globs = re.findall(r"\S+/\*\.cc", cmake)
    for room in [room for room in ROOMS if part_of(room) not in ("cli", "study")]:
        for path in sorted((root / room).glob("*.cc")):
            if not any(path.match(str(root / glob)) for glob in globs):
                errors.append(f"{path.relative_to(root)}: CMakeLists.txt does not compile it")
    installed = (root / PUBLIC / "meson.build").read_text(encoding="utf-8")
    for path in sorted((root / PUBLIC).rglob("*.h")):
        if f"'{path.relative_to(root / PUBLIC)}'" not in installed:
            errors.append(f"{path.relative_to(root)}: it is not installed")
    return errors


def main():
    root = pathlib.Path(sys.argv[1])
    errors, files = check_includes(root)
    errors += check_readmes(root)
    errors += check_lists(root)
    for error in errors:
        print(error)
    print(f"layering: {files} files, {len(errors)} complaints")
    sys.exit(1 if errors or not files else 0)


if __name__ == "__main__":
    main()
