#!/usr/bin/env python3
"""Compares the manual pages and the completion with the program.

  manual_test.py SOURCE_ROOT BUILD_ROOT

Every verb has a page, and every option that `vortex VERB --help` prints stands there at the head of
a paragraph, with both its names; a page has no option that the program does not know. Every function
of the C API has a page. The errors that the library raises stand in vortex(7), each with what to do.
bash completes verbs, options, and the values of those that take one of a few words.
"""

import pathlib
import re
import subprocess
import sys
import unittest

from rooms import House

SOURCE_ROOT = pathlib.Path(sys.argv[1]).resolve()
BUILD_ROOT = pathlib.Path(sys.argv[2]).resolve()
PROGRAM = BUILD_ROOT / "cli" / "vortex"
COMPLETION = SOURCE_ROOT / "cli" / "completion" / "vortex"
# The page of `vortex sort` describes the program vortex-sort behind this heading.
OTHER_PROGRAM = "\n# THE PROGRAM VORTEX-SORT\n"
# Where C++ code raises an error of its own; others pass on what the system says.
RAISED = re.compile(r"(?:Error\(|fail\(|Status\{|return \{|= \{|\? )(E[A-Z]{3,})\b")
# Errors that the sources handle and never hand out as their own.
INSIDE = {"EAGAIN", "EINTR", "EOPNOTSUPP"}


def help_of(*verb):
    return subprocess.run([PROGRAM, *verb, "--help"], stdout=subprocess.PIPE, text=True,
                          check=True).stdout


def options_in(text):
    """The options of a help text, each as the set of its names."""
    heads = re.findall(r"^  (-{1,2}[a-zA-Z][-\w]*(?:,-{1,2}[a-zA-Z][-\w]*)*)", text, re.MULTILINE)
    return [set(head.split(",")) for head in heads]


def page(name):
    return (SOURCE_ROOT / "man" / f"{name}.scd").read_text(encoding="utf-8")


def built_page(name):
    return (BUILD_ROOT / "man" / name).read_text(encoding="utf-8")


def options_of_page(text):
    """The options at the heads of a page's paragraphs."""
    heads = [re.findall(r"\*(-{1,2}[a-zA-Z][-\w]*)\*", line)
             for line in text.splitlines() if line.startswith("*-")]
    return [set(head) for head in heads if head]


VERBS = re.findall(r"^  (\w+) ", help_of().split("Verbs:")[1], re.MULTILINE)


def completed(*words):
    """What bash offers for the last of the words."""
    script = (f'source "{COMPLETION}"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=(); '
              '_vortex; printf "%s\\n" "${COMPREPLY[@]}"')
    done = subprocess.run(["bash", "-uc", script, "bash", PROGRAM, *words], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, check=False)
    if done.stderr:
        raise AssertionError(done.stderr)
    return {word for word in done.stdout.splitlines() if word}


class Manual(unittest.TestCase):
    def test_verbs_have_pages(self):
        self.assertGreaterEqual(len(VERBS), 4)
        overview = page("vortex.1")
        for verb in VERBS:
            self.assertIn(f"*vortex-{verb}*(1)", overview)
            self.assertIn(f"\nvortex-{verb} - ", page(f"vortex-{verb}.1"))

    def test_pages_have_every_option_and_no_other(self):
        common = options_in(help_of())
        self.assertEqual(sorted(map(sorted, common)),
                         sorted(map(sorted, options_of_page(page("vortex.1")))))
        for verb in VERBS:
            printed = [names for names in options_in(help_of(verb)) if "--help" not in names]
            self.assertTrue(printed, verb)
            written = options_of_page(page(f"vortex-{verb}.1").split(OTHER_PROGRAM)[0])
            self.assertEqual(sorted(map(sorted, printed)), sorted(map(sorted, written)), verb)

    def test_the_page_of_sort_has_the_options_of_the_program_of_that_name(self):
        printed = options_in(subprocess.run([BUILD_ROOT / "cli" / "vortex-sort", "--help"],
                                            stdout=subprocess.PIPE, text=True, check=True).stdout)
        self.assertGreater(len(printed), 25)
        written = options_of_page(page("vortex-sort.1").split(OTHER_PROGRAM)[1])
        self.assertEqual(sorted(map(sorted, printed)), sorted(map(sorted, written)))

    def test_errors_have_a_way_out(self):
        raised = set()
        for room in House(SOURCE_ROOT).tops("public", "library"):
            for path in (SOURCE_ROOT / room).rglob("*"):
                if path.suffix in (".h", ".cc"):
                    raised |= set(RAISED.findall(path.read_text(encoding="utf-8")))
        self.assertIn("ENOMEM", raised)
        errors = page("vortex.7").split("\n# ERRORS\n")[1].split("\n# ")[0]
        explained = set(re.findall(r"\*(E[A-Z]+)\*", "\n".join(
            line for line in errors.splitlines() if line.startswith("*"))))
        self.assertEqual(raised - explained - INSIDE, set())

    def test_functions_of_the_c_api_have_pages(self):
        code = "".join(re.sub(r"//.*", "", header.read_text(encoding="utf-8"))
                       for header in (SOURCE_ROOT / "include" / "vortex" / "c").glob("*.h"))
        functions = re.findall(r"VORTEX_EXPORT [^;(]*?\b(vtx_\w+)\(", code)
        self.assertGreater(len(functions), 40)
        for function in functions:
            text = built_page(f"{function}.3")
            if text.startswith(".so "):
                text = built_page(text.split("/")[1].strip())
            self.assertIn(f"{function}(", text)
            self.assertIn(function, text.split(".SH NAME\n")[1].splitlines()[0])
            self.assertIn(function, built_page("vortex.3"))

    def test_bash_completes_verbs_and_options(self):
        self.assertEqual(completed(""), {*VERBS, "--help", "--version"})
        self.assertEqual(completed("so"), {"sort"})
        for verb in VERBS:
            long_names = {name for names in options_in(help_of(verb)) for name in names
                          if name.startswith("--")}
            self.assertEqual(completed(verb, "--"), long_names, verb)

    def test_bash_completes_the_options_of_vortex_sort(self):
        help_text = subprocess.run([BUILD_ROOT / "cli" / "vortex-sort", "--help"],
                                   stdout=subprocess.PIPE, text=True, check=True).stdout
        long_names = {name for names in options_in(help_text) for name in names
                      if name.startswith("--")}
        script = (f'source "{COMPLETION}"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=(); '
                  '_vortex_sort; printf "%s\\n" "${COMPREPLY[@]}"')
        done = subprocess.run(["bash", "-uc", script, "bash", BUILD_ROOT / "cli" / "vortex-sort", "--"],
                              stdout=subprocess.PIPE, text=True, check=True)
        self.assertEqual(set(done.stdout.split()), long_names)

    def test_bash_completes_values(self):
        policies = re.search(r"fetches next: ([\w, -]+?)\s*(?=--|$)", re.sub(
            r"\s+", " ", help_of("sort"))).group(1).split(", ")
        self.assertGreater(len(policies), 3)
        self.assertEqual(completed("sort", "in", "--prefetch", ""), set(policies))
        self.assertEqual(completed("sort", "--prefetch", "=", "srm"), {"srm", "srm-async"})
        self.assertEqual(completed("sort", "--prefetch", "="), set(policies))
        self.assertEqual(completed("sort", "--io", "u"), {"uring"})
        self.assertIn("nearly-sorted", completed("gen", "--distribution", "n"))
        self.assertLessEqual({"records", "ascii", "pairs", "u64"}, completed("check", "--form", ""))

    def test_bash_completes_values_of_vortex_sort(self):
        def completed_by_sort(*words):
            script = (f'source "{COMPLETION}"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); '
                      'COMPREPLY=(); _vortex_sort; printf "%s\\n" "${COMPREPLY[@]}"')
            done = subprocess.run(
                ["bash", "-uc", script, "bash", BUILD_ROOT / "cli" / "vortex-sort", *words],
                stdout=subprocess.PIPE, text=True, check=True)
            return set(done.stdout.split())
        self.assertEqual(completed_by_sort("--sort", "="),
                         {"general-numeric", "human-numeric", "month", "numeric", "random", "version"})
        self.assertEqual(completed_by_sort("--sort", "=", "n"), {"numeric"})
        self.assertEqual(completed_by_sort("--check", "=", "q"), {"quiet"})
        self.assertEqual(completed_by_sort("--parallel", "="), set())

    def test_bash_completes_files_and_folders(self):
        folder = f"{SOURCE_ROOT}/man/"
        self.assertEqual(completed("sort", f"{SOURCE_ROOT}/me"),
                         {f"{SOURCE_ROOT}/meson.build", f"{SOURCE_ROOT}/meson_options.txt"})
        self.assertEqual(completed("sort", "-T", f"{SOURCE_ROOT}/ma"), {folder.rstrip("/")})
        self.assertEqual(completed("sort", "-o", f"{SOURCE_ROOT}/LIC"), {f"{SOURCE_ROOT}/LICENSE"})
        # A number has no completion.
        self.assertEqual(completed("gen", "--seed", ""), set())


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
