#!/usr/bin/env python3
"""Does what the README and the site's first page say, and compares.

  readme_test.py SOURCE_ROOT BUILD_ROOT

- Every command in a shell block of the README is run, in the order given, in a mount namespace that has
  an empty /usr/local and an /etc of its own, so that `meson install` does what it does for a user.
  `./dev test` is what runs this test, so inside it that command has been run already, and `--all` by
  continuous integration; in a run of `meson test` alone they are left out.
- Every C++ block with a main() in either is compiled with the README's own compile line, and what it
  prints is compared with its comments `// prints: ...`.
- Every message that the table of requirements in docs/building.md quotes occurs in the sources, word for
  word.
- The lists of docs/headers.md are what is installed.
"""

import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile
import unittest

SOURCE_ROOT = pathlib.Path(sys.argv[1]).resolve()
BUILD_ROOT = pathlib.Path(sys.argv[2]).resolve()


def document(name):
    return (SOURCE_ROOT / name).read_text(encoding="utf-8")


def blocks(name, language):
    return re.findall(rf"^```{language}\n(.*?)^```", document(name), re.MULTILINE | re.DOTALL)


def section(name, title):
    return re.search(rf"^## {re.escape(title)}\n(.*?)(?=^## |\Z)", document(name),
                     re.MULTILINE | re.DOTALL).group(1)


def run(command, **options):
    done = subprocess.run(command, shell=True, executable="/bin/bash", stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, text=True,
                          check=False, **options)
    if done.returncode != 0:
        raise AssertionError(f"failed ({done.returncode}): {command}\n{done.stdout}")
    return done.stdout


def sources_as_one_text():
    """The sources with adjacent string literals joined, as the compiler sees them."""
    text = ""
    for pattern in ("include/vortex/*", "vortex/*/*", "io/*/*", "sort/*/*", "capi/*", "cli/*", "meson.build",
                    "*/meson.build", "*/*/meson.build"):
        for path in sorted(SOURCE_ROOT.glob(pattern)):
            if path.is_file():
                text += path.read_text(encoding="utf-8") + "\n"
    return re.sub(r'"\s*\n?\s*"', "", text).replace('\\"', '"')


class System:
    """The machine with an empty /usr/local, and with what /etc and the loader's cache become left out of
    the real ones. It is there while a process keeps its mount namespace."""

    SET_UP = """
    set -e
    mount -t tmpfs none "$1"
    mkdir "$1/upper" "$1/work"
    mount -t overlay none -o "lowerdir=/etc,upperdir=$1/upper,workdir=$1/work" /etc
    mount -t tmpfs none /usr/local
    mkdir -p /var/cache/ldconfig
    mount -t tmpfs none /var/cache/ldconfig
    echo ready
    read -r
    """

    def __init__(self, folder):
        root = os.geteuid() == 0
        self.keeper = subprocess.Popen(
            ["unshare", "--mount", "--propagation", "private", *([] if root else ["--map-root-user"]),
             "bash", "-c", self.SET_UP, "bash", folder],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        said = self.keeper.stdout.readline()
        self.refused = None if said == "ready\n" else said + self.keeper.stdout.read()
        namespaces = ["--mount"] if root else ["--mount", "--user", "--preserve-credentials"]
        self.enter = ["nsenter", f"--target={self.keeper.pid}", *namespaces]

    def close(self):
        self.keeper.communicate()

    def run(self, command, cwd):
        return run(shlex.join([*self.enter, f"--wd={cwd}", "bash", "-c", command]))


class Readme(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        (cls.folder / "layer").mkdir()
        cls.system = System(cls.folder / "layer")
        cls.addClassCleanup(cls.system.close)
        cls.commands = [line.strip() for block in blocks("README.md", "sh") for line in block.splitlines()
                        if line.strip() and not line.startswith("#")]

    def setUp(self):
        if self.system.refused:
            message = f"mounts in a namespace of one's own are refused here: {self.system.refused}"
            if "CI" in os.environ:
                self.fail(message)
            self.skipTest(message)

    def compile_line(self):
        lines = [line for line in self.commands if "pkg-config" in line]
        self.assertEqual(len(lines), 1, "the README has one compile line")
        return lines[0]

    def test_1_commands_run(self):
        self.assertIn("./dev test", self.commands)
        self.assertIn("./dev demo", self.commands)
        for command in self.commands:
            if command == self.compile_line():
                continue  # The next test runs it on the examples.
            if command.startswith("./dev test"):
                continue
            words = shlex.split(command)
            known = words[0] == "./dev" or words[:2] == ["meson", "install"]
            self.assertTrue(known, f"this test does not know whether it may run: {command}")
            self.system.run(command, SOURCE_ROOT)

    def test_2_examples_compile_and_print_what_they_say(self):
        programs = [code for name in ("README.md", "docs/index.md") for code in blocks(name, "cpp")
                    if "int main(" in code]
        self.assertGreater(len(programs), 2)
        arguments = shlex.split(self.compile_line().replace("$(", "").replace(")", ""))
        source = next(word for word in arguments if word.endswith(".cc"))
        program = arguments[arguments.index("-o") + 1]
        for code in programs:
            (self.folder / source).write_text(code)
            line = self.compile_line().replace("g++", "g++ -Wall -Wextra -Wpedantic -Werror", 1)
            self.system.run(line, self.folder)
            output = self.system.run(f"./{program}", self.folder)
            promised = re.findall(r"// prints: (.*)", code)
            self.assertEqual(output.splitlines(), promised)

    def test_3_quoted_messages_are_in_the_sources(self):
        sources = sources_as_one_text()
        rows = [line for line in section("docs/building.md",
                                             "Requirements, and what you see without them").splitlines()
                if line.startswith("|")][2:]
        quotes = [quote for row in rows for quote in re.findall(r"`([^`]+)`", row.split("|")[2])]
        self.assertGreater(len(quotes), 10)
        for quote in quotes:
            if not quote.startswith(("Meson version is", "but project requires")):
                self.assertTrue(quote in sources, f"no source says: {quote}")

    def test_4_map_of_headers_is_whole(self):
        named = set(re.findall(r"`(vortex/\w+\.h)`", document("docs/headers.md")))
        listed = self.system.run("ls /usr/local/include/vortex/*.h", "/")
        installed = {path.split("/include/")[1] for path in listed.split()}
        self.assertEqual(named - installed, set(), "in the map, but not installed")
        self.assertEqual(installed - named, set(), "installed, but not in docs/headers.md")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
