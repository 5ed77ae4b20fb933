#!/usr/bin/env python3
"""Installs the library into an empty folder and builds a program against what is there.

  install_test.py SOURCE_ROOT BUILD_ROOT ENGINE --sanitized
  install_test.py SOURCE_ROOT BUILD_ROOT ENGINE [--examples] COMPILER...

Users install no sanitizer's build: the first form only checks which libraries it needs. The second
checks that the pkg-config file is enough to build and run the consumer with the shared and with the
static library, that every installed header compiles alone, that the library brings no allocator
and no symbols beside its own, that the native engine leaves no libsigsegv behind, and that a program
that sorts records of its own runs clean under the sanitizers of COMPILER. With --examples, for a compiler
that does not build them, the examples compile with what is installed, and so do all headers, in one source.
Of headers and sanitizers a part by chance, unless VORTEX_LONG_TESTS is set.
"""

import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile


def run(command, **options):
    """The output of a command; a failure ends the test with what the command printed."""
    done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, check=False, **options)
    if done.returncode != 0:
        print(f"failed ({done.returncode}): {' '.join(map(str, command))}\n{done.stdout}")
        sys.exit(1)
    return done.stdout


def expect(condition, what):
    if not condition:
        print(f"wrong: {what}")
        sys.exit(1)


SEED = int(os.environ.get("VORTEX_TEST_SEED", random.randrange(2**32)))
CHANCE = random.Random(SEED)
LONG = "VORTEX_LONG_TESTS" in os.environ


class Installation:
    def __init__(self, build_root, folder):
        self.root = folder / "root"
        environment = dict(os.environ, DESTDIR=str(self.root))
        run(["meson", "install", "-C", build_root, "--no-rebuild", "--quiet"], env=environment)
        pkg_config_files = list(self.root.rglob("vortex.pc"))
        expect(len(pkg_config_files) == 1, f"one vortex.pc is installed, not {pkg_config_files}")
        self.library_folder = pkg_config_files[0].parent.parent
        self.environment = dict(os.environ, PKG_CONFIG_PATH=str(pkg_config_files[0].parent),
                                PKG_CONFIG_SYSROOT_DIR=str(self.root))
        folders = {path.name for include in self.root.rglob("include") for path in include.iterdir()}
        expect(folders == {"vortex"}, f"headers lie in vortex/ alone, not in {folders}")
        self.headers = sorted(self.root.rglob("include/vortex/*.h"))
        self.includes = self.headers[0].parent.parent if self.headers else self.root
        # Those that public headers include: templates, and the parts of the one for C.
        self.parts = sorted(path for path in self.root.rglob("include/vortex/**/*.h") if path not in self.headers)

    def pkg_config(self, *options, module="vortex"):
        return run(["pkg-config", *options, module], env=self.environment).split()


def needed_libraries(file):
    return re.findall(r"NEEDED.*\[([^\]]+)\]", run(["readelf", "-d", file]))


def strict_check(installation, compiler, folder, standard):
    """The command that checks a source. `standard` has headers that clang reads once then, and not for each source,
    of which it spends most of the time; the compiler of the build has shown that all include what they use."""
    command = [*compiler, "-std=c++20", "-Wall", "-Wextra", "-Wpedantic", "-Werror", *installation.pkg_config("--cflags")]
    if standard is not None:
        run([*command, "-x", "c++-header", standard, "-o", folder / "standard.pch"])
        command += ["-include-pch", folder / "standard.pch"]
    return [*command, "-fsyntax-only"]


def check_headers(installation, strict, compiler, folder, together):
    """Each header compiles alone; `together` for a compiler that is asked for its warnings, when the compiler of the
    build has shown that each includes what it uses. In turns that are chance, unless tests may take long."""
    expect(installation.headers, "headers are installed")
    expect(len(installation.parts) > 20, "templates are installed")
    includes = [f"#include <{header.relative_to(installation.includes)}>\n"
                for header in [*installation.headers, *installation.parts]]
    alone = includes if LONG else CHANCE.sample(includes, len(includes) // 3)
    for text in ["".join(includes)] if together else alone:
        file = folder / "header.cc"
        file.write_text(text)
        run([*strict, file])
    # Programs without exceptions and run-time types include any of them.
    file = folder / "headers.cc"
    file.write_text("".join(f"#include <vortex/{header.name}>\n" for header in installation.headers))
    run([*compiler, "-std=c++20", "-fno-exceptions", "-fno-rtti", "-fsyntax-only", *installation.pkg_config("--cflags"),
         file])


def check_examples(strict, examples):
    sources = sorted(examples.rglob("*.cc"))
    expect(sources, "there are examples")
    for source in sources:
        run([*strict, source])


def symbols_of(file, *options):
    """The demangled names of ours that a library defines, but for what any of them may define."""
    lines = run(["nm", "-C", "--defined-only", *options, file]).splitlines()
    found = (re.match(r"[0-9a-f]+ [TDBR] (.*vortex::.*)", line) for line in lines)
    return {match.group(1).partition("@@")[0] for match in found if match}


def name_of(symbol):
    """What a symbol names, without its parameters and the namespaces of the library."""
    return re.sub(r"^.*?vortex::(v0::)?(detail::)?", "", re.sub(r"\[abi:\w+\]|\(.*", "", symbol))


def check_exports(installation):
    """What the public headers declare and a library defines is seen outside of it."""
    classes, functions = set(), set()
    for header in installation.headers:
        text = header.read_text(encoding="utf-8")
        classes |= set(re.findall(r"^(?:class|struct) (?:VORTEX_EXPORT )?(\w+)[^;{]*\{", text, re.M))
        functions |= set(re.findall(r"^(?!using|inline)\w[^;{}()=]*\b(\w+)\([^{}]*;", text, re.M))
    hidden = []
    for name in ("vortex", "vortex-streams", "vortex-arrays"):
        library = installation.library_folder / f"lib{name}"
        for symbol in symbols_of(f"{library}.a") - symbols_of(f"{library}.so", "-D"):
            top, _, member = name_of(symbol).partition("::")
            if top in (classes if member else functions):
                hidden.append(symbol)
    expect(not hidden, f"declared for users, but hidden in a library: {sorted(hidden)[:10]}")


def check_consumer(installation, compiler, source, folder):
    """With the shared and with the static library. What includes need is the same for both, so that it is compiled
    once."""
    flags = installation.pkg_config("--cflags")
    expect(installation.pkg_config("--static", "--cflags") == flags, "the static library needs no other flags to compile")
    made = folder / "consumer.o"
    run([*compiler, "-std=c++20", "-O2", "-Wall", "-Wextra", "-Wpedantic", "-Werror", source, *flags, "-c", "-o", made])
    program = folder / "shared"
    run([*compiler, made, *installation.pkg_config("--libs"), "-o", program])
    libraries = needed_libraries(program)
    ours = [name for name in libraries if name.startswith("libvortex.so.")]
    expect(ours, f"the program needs libvortex.so.N; it needs {libraries}")
    expect("libsigsegv.so.2" not in libraries, "the engine is the library's business, not ours")
    print(run([program, folder],
              env=dict(os.environ, LD_LIBRARY_PATH=str(installation.library_folder))).strip())
    program = folder / "static"
    run([*compiler, "-static", made, *installation.pkg_config("--static", "--libs"), "-o", program])
    expect(not needed_libraries(program), "the static program needs no shared library")
    print(run([program, folder]).strip())


def check_libraries(installation, engine, sanitized):
    flags = installation.pkg_config("--static", "--libs")
    expect(("-lsigsegv" in flags) == (engine == "libsigsegv"), f"engine {engine}, flags {flags}")
    for name in ("vortex", "vortex-streams", "vortex-arrays"):
        library = installation.library_folder / f"lib{name}.so"
        theirs = needed_libraries(library)
        expect(not any("jemalloc" in other for other in theirs), f"no allocator in {theirs}")
        lines = run(["nm", "-D", "-C", "--defined-only", library]).splitlines()
        # The names of the versions are of type A.
        names = [name for _, kind, name in (line.split(" ", 2) for line in lines) if kind != "A"]
        foreign = [name for name in names if "vortex::" not in name and not name.startswith("vtx_")]
        # A sanitizer's compiler adds names of its own.
        expect(len(names) > 5 and (sanitized or not foreign),
               f"{len(names)} symbols, not ours: {foreign[:10]}")
        with_sigsegv = any(other.startswith("libsigsegv") for other in theirs)
        expect(with_sigsegv == (name == "vortex-streams" and engine == "libsigsegv"),
               f"engine {engine}, but {name} needs {theirs}")
        if name == "vortex-arrays":
            expect(not any("uring" in other or "vortex" in other for other in theirs),
                   f"sorting arrays in memory needs nothing beside C++, not {theirs}")


def check_sanitized(installation, compiler, source, folder):
    """What our headers put into programs runs clean under the sanitizers of the build's compiler, so
    that the builds with gcc and clang ask both. One sanitizer at a time: together they change the
    code so that gcc's finds less. Chance says which, and for records of which size; long tests try all."""
    kinds = [(sanitizer, size) for sanitizer in ("address", "undefined") for size in (24, 104)]
    for sanitizer, size in kinds if LONG else CHANCE.sample(kinds, 1):
        program = folder / sanitizer
        run([*compiler, "-std=c++20", "-O2", "-g1", f"-fsanitize={sanitizer}",
             "-fno-sanitize-recover=all", f"-DRECORD_BYTES={size}", source,
             *installation.pkg_config("--cflags", "--libs"), "-o", program])
        said = run([program], env=dict(
            os.environ, LD_LIBRARY_PATH=str(installation.library_folder),
            UBSAN_OPTIONS="print_stacktrace=1"))
        print(f"-fsanitize={sanitizer}, {size} bytes: {said.strip()}")


def main():
    source_root, build_root = map(pathlib.Path, sys.argv[1:3])
    engine, compiler = sys.argv[3], [word for word in sys.argv[4:] if not word.startswith("--")]
    sanitized, with_examples = "--sanitized" in sys.argv, "--examples" in sys.argv
    print(f"seed: {SEED} (VORTEX_TEST_SEED)")
    consumers = source_root / "tests" / "project" / "consumer"
    source = consumers / "consumer.cc"
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        installation = Installation(build_root, folder)
        check_libraries(installation, engine, sanitized)
        if not sanitized:
            standard = source_root / "pch" / "standard.h" if with_examples else None
            strict = strict_check(installation, compiler, folder, standard)
            check_headers(installation, strict, compiler, folder, together=with_examples)
            if with_examples:
                check_examples(strict, source_root / "examples")
            check_exports(installation)
            check_consumer(installation, compiler, source, folder)
            check_sanitized(installation, compiler, consumers / "sorts_records.cc", folder)
        print(f"installed: {len(installation.headers)} headers, engine {engine}")


if __name__ == "__main__":
    main()
