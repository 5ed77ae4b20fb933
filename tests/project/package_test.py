#!/usr/bin/env python3
"""Builds a stranger's project against the library in each way that there is, and runs it.

  package_test.py SOURCE_ROOT BUILD_ROOT

From an installation in an empty folder: by pkg-config in C, shared and static, and in C++ without
exceptions, optimised when linking; by CMake's find_package with components, shared and static, in C++ and in C alone. From the sources: as
a Meson subproject, which asks for no dependency of tests or benchmarks, and by CMake's
add_subdirectory, which must know the same sources as Meson does and optimise them unless told
otherwise. Both are configured, and one is built, by chance, unless VORTEX_LONG_TESTS is set. The ways are
independent and run side by side.
"""

import concurrent.futures
import json
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys
import tempfile

from rooms import House

SOURCE_ROOT, BUILD_ROOT = (pathlib.Path(argument).resolve() for argument in sys.argv[1:3])
CONSUMER = SOURCE_ROOT / "tests" / "project" / "consumer"
STRICT = ["-Wall", "-Wextra", "-Wpedantic", "-Werror"]
SORTED = "numbers are sorted"
C_SORTED = "the file is sorted"
SEED = int(os.environ.get("VORTEX_TEST_SEED", random.randrange(2**32)))
FROM_SOURCES = ["meson", "cmake"]
BUILT = FROM_SOURCES if "VORTEX_LONG_TESTS" in os.environ else [random.Random(SEED).choice(FROM_SOURCES)]
# What tests, benchmarks and the program need, as Meson names it when it looks.
FOREIGN = re.compile(r"gtest|gmock|benchmark|boost|hwy|stxxl|jemalloc|tbb|CLI11|fmt|nlohmann|xxhash"
                     r"|zlib|zstd|yajl|scdoc", re.IGNORECASE)


class Wrong(Exception):
    pass


def run(command, **options):
    done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, check=False, **options)
    if done.returncode != 0:
        raise Wrong(f"failed ({done.returncode}): {' '.join(map(str, command))}\n{done.stdout}")
    return done.stdout


def expect(condition, what):
    if not condition:
        raise Wrong(f"wrong: {what}")


class Installation:
    def __init__(self, folder):
        root = folder / "root"
        run(["meson", "install", "-C", BUILD_ROOT, "--no-rebuild", "--quiet"],
            env=dict(os.environ, DESTDIR=str(root)))
        # As if it had been moved: nothing in it may name the prefix of the build.
        prefix = next(root.rglob("include/vortex")).parent.parent
        self.prefix = folder / "moved"
        prefix.rename(self.prefix)
        libraries = next(self.prefix.rglob("libvortex.so")).parent
        self.environment = dict(os.environ, LD_LIBRARY_PATH=str(libraries),
                                PKG_CONFIG_PATH=str(libraries / "pkgconfig"))

    def flags(self, *options):
        return run(["pkg-config", f"--define-variable=prefix={self.prefix}", *options],
                   env=self.environment).split()


def works(program, output, environment=None):
    """Runs a consumer; the one that makes a file is told where."""
    said = run([program, program.parent / f"{program.name}.numbers"], env=environment).strip()
    expect(said == output, f"{program} says: {said}")


def by_pkg_config_in_c(installation, folder):
    folder.mkdir()
    source = CONSUMER / "uses_c.c"
    for compiler in ("gcc", "clang"):
        if shutil.which(compiler) is None:
            print(f"there is no {compiler}: it is not asked")
            continue
        run([compiler, "-std=c11", *STRICT, source, *installation.flags("--cflags", "--libs", "vortex"),
             "-o", folder / compiler])
        works(folder / compiler, C_SORTED, installation.environment)
    run(["gcc", "-std=c11", "-static", source,
         *installation.flags("--static", "--cflags", "--libs", "vortex"), "-o", folder / "static"])
    works(folder / "static", C_SORTED)


def by_pkg_config_without_exceptions(installation, folder):
    folder.mkdir()
    flags = installation.flags("--cflags", "--libs", "vortex-arrays")
    run(["g++", "-std=c++20", "-O1", "-flto=auto", "-fno-exceptions", "-fno-rtti", *STRICT,
         f"-I{CONSUMER}", CONSUMER / "sorts_numbers.cc", *flags, "-o", folder / "sorts_numbers"])
    works(folder / "sorts_numbers", SORTED, installation.environment)


def by_find_package(installation, folder):
    for name, options in {"shared": [], "static": ["-Dvortex_USE_STATIC_LIBS=ON"]}.items():
        build = folder / name
        run(["cmake", "-G", "Ninja", "-S", CONSUMER, "-B", build,
             f"-DCMAKE_PREFIX_PATH={installation.prefix}", *options])
        run(["cmake", "--build", build])
        works(build / "uses_c", C_SORTED, installation.environment)
        works(build / "sorts_numbers", SORTED, installation.environment)
        # A project that knows no C++ at all.
        plain = folder / f"plain-{name}"
        plain.mkdir()
        (plain / "CMakeLists.txt").write_text(
            "cmake_minimum_required(VERSION 3.18)\nproject(plain C)\n"
            "find_package(vortex REQUIRED)\n"
            f"add_executable(uses_c {CONSUMER / 'uses_c.c'})\n"
            "target_link_libraries(uses_c vortex::vortex)\n")
        run(["cmake", "-G", "Ninja", "-S", plain, "-B", plain / "build",
             f"-DCMAKE_PREFIX_PATH={installation.prefix}", *options])
        run(["cmake", "--build", plain / "build"])
        works(plain / "build" / "uses_c", C_SORTED, installation.environment)
    wrong = folder / "wrong"
    wrong.mkdir()
    (wrong / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.18)\nproject(wrong CXX)\n"
        "find_package(vortex QUIET COMPONENTS sorts tables)\n"
        "if(vortex_tables_FOUND OR NOT vortex_sorts_FOUND)\nmessage(FATAL_ERROR wrong)\nendif()\n"
        "find_package(vortex 0.2 QUIET)\nif(vortex_FOUND)\nmessage(FATAL_ERROR version)\nendif()\n")
    run(["cmake", "-S", wrong, "-B", wrong / "build", f"-DCMAKE_PREFIX_PATH={installation.prefix}"])


def as_meson_subproject(_, folder):
    shutil.copytree(CONSUMER, folder)
    (folder / "subprojects").mkdir()
    (folder / "subprojects" / "vortex").symlink_to(SOURCE_ROOT)
    said = run(["meson", "setup", folder / "build", folder, "--buildtype=plain"])
    asked = [line for line in said.splitlines() if FOREIGN.search(line) and str(folder) not in line]
    expect(not asked, f"a subproject asks for {asked}")
    if "meson" in BUILT:
        run(["ninja", "-C", folder / "build", "sorts_numbers"])
        works(folder / "build" / "sorts_numbers", SORTED)


def sources_in(build):
    """The files of the library that a build would compile."""
    commands = json.loads((build / "compile_commands.json").read_text(encoding="utf-8"))
    files = {(pathlib.Path(each["directory"]) / each["file"]).resolve() for each in commands}
    inside = {file.relative_to(SOURCE_ROOT) for file in files if SOURCE_ROOT in file.parents}
    return {file for file in inside if file.parts[0] in House(SOURCE_ROOT).tops("library")}


def configure_with_sources(folder, *options):
    run(["cmake", "-G", "Ninja", "-S", CONSUMER, "-B", folder, f"-DVORTEX_SOURCE={SOURCE_ROOT}",
         "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON", *options])


def optimised_commands(build):
    """How many of the library's files are compiled with optimisation, and how many there are."""
    commands = json.loads((build / "compile_commands.json").read_text(encoding="utf-8"))
    ours = [each["command"] for each in commands if pathlib.Path(each["file"]).is_relative_to(SOURCE_ROOT / "sort")]
    return sum(" -O" in command for command in ours), len(ours)


def by_add_subdirectory(_, folder):
    configure_with_sources(folder)
    optimised, files = optimised_commands(folder)
    expect(files and optimised == files, f"without a build type {optimised} of {files} are optimised")
    differ = sources_in(folder) ^ sources_in(BUILD_ROOT)
    expect(not differ, f"only one of CMakeLists.txt and meson.build knows {sorted(map(str, differ))}")
    # Not the optimised build, whose commands have been seen: it takes three times as long. Nobody debugs this one.
    configure_with_sources(folder / "debug", "-DCMAKE_BUILD_TYPE=Debug", "-DCMAKE_CXX_FLAGS_DEBUG=")
    optimised, _ = optimised_commands(folder / "debug")
    expect(not optimised, "a debug build is optimised")
    if "cmake" in BUILT:
        run(["cmake", "--build", folder / "debug", "--target", "sorts_numbers"])
        works(folder / "debug" / "sorts_numbers", SORTED)


def main():
    ways = [as_meson_subproject, by_add_subdirectory, by_find_package, by_pkg_config_in_c,
            by_pkg_config_without_exceptions]
    failed = False
    print(f"seed: {SEED} (VORTEX_TEST_SEED), built from sources: {BUILT}", flush=True)
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        installation = Installation(folder)
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            running = {pool.submit(way, installation, folder / way.__name__): way for way in ways}
            for done in concurrent.futures.as_completed(running):
                name = running[done].__name__.replace("_", " ")
                try:
                    done.result()
                    print(f"{name}: good", flush=True)
                except Wrong as wrong:
                    print(f"{name}: {wrong}", flush=True)
                    failed = True
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
