#!/usr/bin/env python3
"""Looks at the newest wheel in a folder, and uses it as people do who have nothing but the wheel.

  check_wheel.py ROOT PYTHON FOLDER

Fails where something is missing in it, where it needs a library that a machine may lack, or where its
versions differ. Installs it with PYTHON into an environment of its own in FOLDER.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import zipfile

# What every Linux with Python has; the last is the loader.
EVERYWHERE = {"libc.so.6", "libm.so.6", "libgcc_s.so.1", "ld-linux-x86-64.so.2"}
PROGRAMS = ("vortex", "vortex-sort")
# Its versions, one a line, and that it is at work, without a GIL where the interpreter needs none.
USE = """
import importlib.metadata, sys, sysconfig, vortex
assert not sysconfig.get_config_var("Py_GIL_DISABLED") or not sys._is_gil_enabled()
print(importlib.metadata.version("vortex-streams"), vortex.__version__, *vortex.sorted([30, 10, 20]))
"""


def needed_by(path):
    said = subprocess.run(["readelf", "-d", path], stdout=subprocess.PIPE, text=True, check=True).stdout
    return set(re.findall(r"\(NEEDED\).*\[(.*)\]", said))


def output_of(*command, **options):
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, **options).stdout


def sorts_as_in_the_locale(program, work):
    """Whether the program has the order of a locale of the system, as sort(1) has; None: there is none."""
    locales = {**os.environ, "LOCPATH": str(work / "locales"), "LC_ALL": "en_US.UTF-8"}
    (work / "locales").mkdir()
    made = subprocess.run(["localedef", "-i", "en_US", "-f", "UTF-8", work / "locales/en_US.UTF-8"],
                          stderr=subprocess.DEVNULL, check=False)
    if made.returncode != 0:
        return None
    text = "".join(f"{word}\n" for word in ["b", "B", "a c", "ab", "\u00e4", "Z", "_x", "-", "\u00e9a", "z"])
    return output_of(program, input=text, env=locales) == output_of("sort", input=text, env=locales)


def complaints_about(wheel, root, python, work):
    version = re.search(r"version: '(.*)'", (root / "meson.build").read_text(encoding="utf-8")).group(1)
    with zipfile.ZipFile(wheel) as packed:
        names = packed.namelist()
        packed.extractall(work / "files")
    if wheel.name.split("-")[1] != version:
        yield f"its name has another version than meson.build ({version})"
    # What is linked in has no name any more.
    if '"-Dengine=native"' not in (root / "pyproject.toml").read_text(encoding="utf-8"):
        yield "libsigsegv is linked in, which is under the GPL"
    if "manylinux" not in wheel.name:
        yield "auditwheel has not named it manylinux"
    sources = {f"vortex/{path.name}" for path in (root / "python/vortex").iterdir() if path.is_file()}
    for missing in sorted(sources - set(names)):
        yield f"{missing} is not in it"
    # Of our own code, and of what is linked in.
    for licence in ("LICENSE", *(f"python/licenses/{path.name}" for path in (root / "python/licenses").iterdir())):
        if f"vortex_streams-{version}.dist-info/licenses/{licence}" not in names:
            yield f"{licence} is not in it"
    module, = (name for name in names if name.startswith("vortex/_core.") and name.endswith(".so"))
    if ("abi3" in module) != ("-abi3-" in wheel.name):
        yield f"{module} has another ABI than the name of the wheel"
    scripts = {name: f"vortex_streams-{version}.data/scripts/{name}" for name in PROGRAMS}
    allowed = {**dict.fromkeys(scripts.values(), frozenset()), module: EVERYWHERE}
    for name in names:
        path = work / "files" / name
        if path.is_file() and path.read_bytes()[:4] == b"\x7fELF" and name not in allowed:
            yield f"{name} was copied into it"
    for name, libraries in allowed.items():
        if name not in names:
            yield f"{name} is not in it"
        elif needed_by(work / "files" / name) - libraries:
            yield f"{name} needs {needed_by(work / 'files' / name) - libraries}"

    environment = work / "environment"
    output_of(python, "-m", "venv", environment)
    output_of(environment / "bin/pip", "--disable-pip-version-check", "install", "--quiet", wheel)
    said = output_of(environment / "bin/python", "-c", USE).split()
    if said != [version, version, "10", "20", "30"]:
        yield f"the package says {said}"
    for name in PROGRAMS:
        said = output_of(environment / "bin" / name, "--version")
        if version not in said:
            yield f"{name} --version says {said}"
    if output_of(environment / "bin/vortex-sort", "-n", input="20\n3\n") != "3\n20\n":
        yield "vortex-sort does not sort"
    as_in_locale = sorts_as_in_the_locale(environment / "bin/vortex-sort", work)
    if as_in_locale is None:
        print("localedef cannot make a locale (Debian: locales): the order of one is not looked at")
    elif not as_in_locale:
        yield "vortex-sort does not have the order of a locale"


def main():
    root, python, folder = pathlib.Path(sys.argv[1]), sys.argv[2], pathlib.Path(sys.argv[3])
    wheel = max(folder.glob("*.whl"), key=lambda path: path.stat().st_mtime)
    work = folder / "check"
    shutil.rmtree(work, ignore_errors=True)
    complaints = list(complaints_about(wheel, root, python, work))
    for complaint in complaints:
        print(f"{wheel.name}: {complaint}")
    shutil.rmtree(work, ignore_errors=True)
    sys.exit(1 if complaints else 0)


if __name__ == "__main__":
    main()
