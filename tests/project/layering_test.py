#!/usr/bin/env python3
"""Fails on an include that points the wrong way, on a room that is not described or too full, on a file
that strangers or clang-tidy would miss, and on a message of the library that names a flag of the program.

  layering_test.py ROOT

rooms.toml is the map: it names the rooms in the order of their layers, and the limits that sizes.py
measures. Public headers and their templates include each other alone, and of the system what C++ has.
Includes of our own are written in full ("vortex/thread/futex.h"), so that every file reads the same wherever
it lies. A library of somebody else belongs to the rooms that own its headers.

Each room has a README.md of at most 15 lines that names each of its files once, in reading order:
a file comes after those of the same room that it includes.
"""

import pathlib
import re
import sys

from rooms import SOURCES, House, say
from sizes import check_sizes

# Public headers use, beside the C++ library: guarded() jumps, vanishing sorts give way to another
# thread, every x86-64 has SSE2, and C names its types in headers of its own.
OUTSIDE = ["setjmp.h", "sched.h", "emmintrin.h", "stddef.h", "stdint.h"]
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')


def resolve(house, name):
    """The file that an include of ours means, relative to the root."""
    for folder in ("", "include/"):
        if (house.root / (folder + name)).is_file():
            return folder + name
    return None


def complaints_about(house, room, line):
    """What is wrong with one line of a file in `room`."""
    match = INCLUDE.match(line)
    if not match:
        return
    quote, name = match.groups()
    kind = house.kind(room)
    if quote == '"':
        target = resolve(house, name)
        if target is None:
            yield f'"{name}" is not written in full, or does not exist'
        elif kind:
            other = str(pathlib.PurePath(target).parent)
            if not house.kind(other):
                yield f'"{name}" is in no room of the house'
            elif not house.may_include(room, other):
                yield f'"{name}" is not below {room}/'
    elif name.split("/")[0] in house.tops() and resolve(house, name):
        yield f"<{name}> is ours: write it with quotes"
    elif quote == "<" and kind == "public" and name.endswith(".h") and name not in OUTSIDE:
        yield f"<{name}> stands between users and the C++ library"
    for prefix, owners in house.owners().items():
        if kind and room not in owners and (name == prefix or (prefix.endswith("/") and name.startswith(prefix))):
            yield f"{name} belongs to {', '.join(owners)}/ alone"


LITERAL = re.compile(r'"((?:[^"\\]|\\.)*)"')
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


def check_includes(house):
    errors, files = [], 0
    for top in [*house.tops(), *house.users]:
        for path in house.sources(top):
            inside = path.relative_to(house.root)
            files += 1
            room = str(inside.parent)
            kind = house.kind(room)
            if top not in house.users and not kind:
                errors.append(f"{inside}: there is no room {room}/")
            lines = path.read_text(encoding="utf-8").splitlines()
            for number, line in enumerate(lines, start=1):
                complaints = list(complaints_about(house, room, line))
                if kind in ("public", "library"):
                    complaints += flags_named_in(line)
                for complaint in complaints:
                    errors.append(f"{inside}:{number}: {complaint}")
    return errors, files


def concepts(house, room):
    """The files of a room without their endings, each with those of the room that it includes."""
    found = {}
    for path in sorted((house.root / room).glob("*")):
        if path.suffix not in SOURCES:
            continue
        uses = found.setdefault(path.stem, set())
        for line in path.read_text(encoding="utf-8").splitlines():
            match = INCLUDE.match(line)
            target = match and resolve(house, match.group(2))
            if target and pathlib.PurePath(target).suffix == ".h":
                other = pathlib.PurePath(target)
                if str(other.parent) == room and path.suffix == ".h":
                    uses.add(other.stem)
    return found


def check_readmes(house):
    errors = []
    for room in house.order:
        file = house.root / room / "README.md"
        if not file.is_file():
            # Users look for headers by what the main README says of them.
            if room not in ("cli", "include/vortex"):
                errors.append(f"{room}/README.md is missing")
            continue
        text = file.read_text(encoding="utf-8")
        if len(text.splitlines()) > house.limits["readme"]:
            errors.append(f"{room}/README.md has more than {house.limits['readme']} lines")
        named = re.findall(r"`(\w+)`", text)
        files = concepts(house, room)
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


def check_lists(house):
    """A file that a list forgets is missed by strangers alone: our own build is Meson's, in place."""
    root, errors = house.root, []
    cmake = (root / "CMakeLists.txt").read_text(encoding="utf-8")
    globs = re.findall(r"\S+/\*\.cc", cmake)
    listed = {top: (root / top / "meson.build").read_text(encoding="utf-8") for top in house.tops() if top != "include"}
    for room in house.order:
        top, _, below = room.partition("/")
        for path in sorted((root / room).glob("*.cc")):
            inside = path.relative_to(root)
            if house.kind(room) == "library" and not any(path.match(str(root / glob)) for glob in globs):
                errors.append(f"{inside}: CMakeLists.txt does not compile it")
            if f"'{path.relative_to(root / top)}'" not in listed[top]:
                errors.append(f"{inside}: {top}/meson.build does not compile it")
    installed = (root / "include/vortex/meson.build").read_text(encoding="utf-8")
    for path in house.sources("include/vortex"):
        if f"'{path.relative_to(root / 'include/vortex')}'" not in installed:
            errors.append(f"{path.relative_to(root)}: it is not installed")
    linted = re.compile(re.search(r"HeaderFilterRegex: '(.*)'", (root / ".clang-tidy").read_text(encoding="utf-8")).group(1))
    for top in [*house.tops(), *house.users]:
        for path in house.sources(top):
            if path.suffix == ".h" and not linted.search(f"/{path.relative_to(root)}"):
                errors.append(f"{path.relative_to(root)}: clang-tidy does not look at it (.clang-tidy)")
    return errors


def main():
    house = House(sys.argv[1])
    errors, files = check_includes(house)
    errors += check_readmes(house)
    errors += check_lists(house)
    errors += check_sizes(house)
    sys.exit(say(errors if files else ["there are no files"], f"layering: {files} files"))


if __name__ == "__main__":
    main()
