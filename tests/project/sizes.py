"""How large files, functions and folders are, measured by the limits in rooms.toml."""

import ast
import collections
import pathlib
import re

from rooms import SOURCES

# Comments, literals and preprocessor lines: braces in them open nothing.
NOISE = re.compile(r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:[^"\\\n]|\\.)*"'
                   r"|(?<![0-9a-fA-F])'(?:[^'\\\n]|\\.)+'|^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", re.M | re.S)
SCOPE = re.compile(r"\b(namespace|extern|class|struct|union|enum)\b[^()=]*$")
ASSIGNMENT = re.compile(r"[^=!<>]=[^=]")


def without_parameters(head):
    """The head of a declaration without template parameters, whose defaults are no assignments."""
    match = re.match(r"\s*template\s*(?=<)", head)
    while match:
        at, depth, brackets = match.end(), 0, 0
        while at < len(head):
            brackets += {"(": 1, ")": -1}.get(head[at], 0)
            if not brackets:
                depth += {"<": 1, ">": -1}.get(head[at], 0)
            at += 1
            if not depth and not brackets:
                break
        head = head[at:]
        match = re.match(r"\s*template\s*(?=<)", head)
    return head


def functions(text):
    """The first line of each function of a file, its last line, and its name, by their braces alone.

    What is in a function belongs to it: lambdas and local types are no functions of their own.
    """
    code = NOISE.sub(lambda match: "\n" * match.group().count("\n"), text)
    begin, inside, depth = 0, None, 0
    for match in re.finditer(r"[{};]", code):
        brace, at = match.group(), match.start()
        if inside is not None:
            depth += {"{": 1, "}": -1, ";": 0}[brace]
            if depth or brace != "}":
                continue
            if inside == "function":
                if code[at + 1:].lstrip()[:1] in (",", "{"):
                    continue  # A constructor has initialised a member, and goes on.
                first = begin + len(code[begin:at]) - len(code[begin:at].lstrip())
                name = " ".join(without_parameters(code[first:at]).split("(")[0].split())
                yield code.count("\n", 0, first) + 1, code.count("\n", 0, at) + 1, name
            inside, begin = None, at + 1
        elif brace == "{" and not SCOPE.search(without_parameters(code[begin:at])):
            head = without_parameters(code[begin:at]).split("(")
            inside = "function" if len(head) > 1 and not ASSIGNMENT.search(head[0]) else "value"
            depth = 1
        else:
            begin = at + 1


def python_functions(text):
    """The same of a file of Python, where a function includes what says how it is called, which does not count."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            documented = node.body[0] if ast.get_docstring(node, clean=False) is not None else None
            said = documented.end_lineno - documented.lineno + 1 if documented else 0
            yield node.lineno, node.end_lineno - said, node.name


def concept_of(house, inside, text):
    """A header and its source: they have one name, and where the header is public, two folders."""
    name = inside.rsplit(".", 1)[0]
    header = re.search(r'^#include "([^"]+)\.h"', text, re.M)
    if inside.endswith(".cc") and header and header.group(1).split("/")[-1] == name.split("/")[-1]:
        public = f"include/{header.group(1)}"
        return public if (house.root / f"{public}.h").is_file() else header.group(1)
    return name


def function_sizes(house, inside, text):
    """The functions of a file of C, C++ or Python that are too long."""
    for first, last, name in (python_functions if inside.endswith(".py") else functions)(text):
        if last - first + 1 > house.limits["function"]:
            yield "function", f"{inside}: {name}", last - first + 1


def sizes(house):
    """What breaks a limit: its kind, what it is, and how large it is."""
    concepts = collections.Counter()
    for top in [*house.tops(), *house.packages]:
        for path in house.sources(top, ".py"):
            inside = str(path.relative_to(house.root))
            if set(pathlib.PurePath(inside).parts) & set(house.users):
                continue  # Those of a package.
            text = path.read_text(encoding="utf-8")
            lines = text.count("\n")
            yield from function_sizes(house, inside, text)
            if lines > house.limits["file"]:
                yield "file", inside, lines
            if top not in house.packages:
                concepts[concept_of(house, inside, text)] += lines
    for top in house.functions_of:
        for path in house.sources(top, ".py"):
            yield from function_sizes(house, str(path.relative_to(house.root)), path.read_text(encoding="utf-8"))
    for concept, lines in concepts.items():
        if lines < house.limits["least_concept"]:
            yield "least_concept", concept, lines
    yield from folder_sizes(house)


def folder_sizes(house):
    """Folders with too many files, beside their README and meson.build."""
    folders = collections.Counter()
    for top in [*house.tops(), *house.users, *house.packages]:
        for path in house.files(top):
            if path.suffix in (*SOURCES, ".py", ".md") and path.name != "README.md":
                folders[str(path.parent.relative_to(house.root))] += 1
    for folder, files in folders.items():
        if files > house.limits["files_in_a_folder"]:
            yield "files_in_a_folder", folder, files


WORDS = {
    "file": "{} has {} lines; a file has at most {}",
    "function": "{} has {} lines; a function has at most {}",
    "least_concept": "{}: a header and its source of {} lines together; join what has less than {} to what it belongs to",
    "files_in_a_folder": "{} has {} files beside each other; a room has at most {}",
}


def check_sizes(house):
    """Complaints about what breaks a limit, and about exceptions that nothing needs."""
    needed = {kind: set() for kind in WORDS}
    for kind, what, size in sizes(house):
        needed[kind].add(what)
        if what not in house.exceptions.get(kind, []):
            yield WORDS[kind].format(what, size, house.limits[kind])
    for kind, exceptions in house.exceptions.items():
        for what in exceptions:
            if what not in needed[kind]:
                yield f"rooms.toml: {what} keeps the limit `{kind}`: take the exception away"
