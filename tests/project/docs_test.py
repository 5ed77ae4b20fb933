#!/usr/bin/env python3
"""Checks that what the documents name exists.

  docs_test.py ROOT

For every Markdown file: links to files and headings resolve; files named in the text exist; no
code span crosses a line; the commands in shell blocks and code spans use verbs, flavours, tests, build
options, benchmarks and examples that there are. Every file of bench/results/ names its machine and a
command, and docs/decisions.md links to it. Documents that comments in the code name exist, and so do
the headings and titles that they quote from them.
"""

import pathlib
import re
import sys

ROOMS = ("include", "vortex", "io", "sort", "capi", "study", "cli", "tests", "bench", "examples", "docs", "man")
LINK = re.compile(r"(?<!!)\[[^\]]+\]\(([^)\s]+)\)")
CODE = re.compile(r"`([^`\n]+)`")
FENCE = re.compile(r"^```([^`\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
CODE_SUFFIXES = {".h", ".cc", ".py", ".build", ".in"}
# `docs/NAME.md`, or `docs/NAME.md, "Title"`, in a comment whose lines have been joined.
MENTION = re.compile(r'\b(docs/\w+\.md)(?:, "([^"]+)")?')
PLACEHOLDER = re.compile(r"\b(NAME|ROOM|FILE|FOLDER|FLAVOUR)\b|[*…<>{}]|_test\.cc$")
MESON_BUILTIN = {"buildtype", "prefix", "libdir", "b_sanitize", "b_lto", "werror", "cpp_args",
                 "default_library", "b_lundef", "strip"}


def anchor(heading):
    text = re.sub(r"[^\w\- ]", "", heading.strip().lower())
    return text.replace(" ", "-")


class Project:
    def __init__(self, root):
        self.root = root
        dev = (root / "dev").read_text(encoding="utf-8")
        usage = dev[dev.index("usage: ./dev"):]
        usage = usage[: usage.index("\nTEXT\n")]
        self.verbs = set(re.findall(r"^  ([a-z]+)\b", usage, re.MULTILINE))
        self.verb_options = set(re.findall(r"--[a-z-]+", usage))
        self.flavours = set(re.search(r"kFlavours=\(([^)]*)\)", dev).group(1).split())
        options = (root / "meson_options.txt").read_text(encoding="utf-8")
        self.options = {}
        for name, rest in re.findall(r"option\('([^']+)',(.*?)\)$", options, re.M | re.S):
            choices = re.search(r"choices: \[([^\]]*)\]", rest)
            if choices:
                self.options[name] = set(re.findall(r"'([^']+)'", choices.group(1)))
            elif "type: 'boolean'" in rest:
                self.options[name] = {"true", "false"}
            elif "type: 'feature'" in rest:
                self.options[name] = {"enabled", "disabled", "auto"}
            else:
                self.options[name] = None

    def documents(self):
        for path in sorted(self.root.rglob("*.md")):
            inside = path.relative_to(self.root).parts
            if not inside[0].startswith(("build", ".")):
                yield path

    def program_exists(self, word):
        """`word` names a file of this repository or something that the build makes from one."""
        built = re.match(r"(?:\./)?build[^/]*/(bench|examples|cli|tests)/(\w+)$", word)
        if not built:
            return (self.root / word).exists()
        room, name = built.groups()
        if room == "cli":
            return name == "vortex" and any((self.root / "cli").glob("*.cc"))
        return any((self.root / room).rglob(f"{name}.cc"))


def check_links(project, path, text):
    for target in LINK.findall(text):
        if re.match(r"[a-z]+:", target):
            continue
        file, _, fragment = target.partition("#")
        other = (path.parent / file).resolve() if file else path
        if not other.exists():
            yield f"link to {target}: no such file"
        elif fragment and other.suffix == ".md":
            headings = re.findall(r"^#+ (.*)$", other.read_text(encoding="utf-8"), re.MULTILINE)
            if fragment not in map(anchor, headings):
                yield f"link to {target}: no such heading"


def check_names(project, path, text):
    for code in CODE.findall(FENCE.sub("", text)):
        word = code.strip()
        if re.match(r"(\w+=\S* )*\./dev ", code):
            yield from check_command(project, code)
        elif re.match(rf"({'|'.join(ROOMS)})/[\w./-]*$", word) and not PLACEHOLDER.search(word):
            public = word.startswith("vortex/") and (project.root / "include" / word).is_file()
            if not public and not (project.root / word).exists():
                yield f"`{word}`: no such file"
        elif re.match(r"build[^/ ]*/(bench|examples|tests|cli)/\w+$", word):
            if not PLACEHOLDER.search(word) and not project.program_exists(word):
                yield f"`{word}`: nothing is built under that name"
        else:
            yield from check_options(project, word)


def check_options(project, command):
    for name, value in re.findall(r"(?:^|\s)-D(\w+)=(\S*)", command):
        if name in MESON_BUILTIN or PLACEHOLDER.search(name):
            continue
        if name not in project.options:
            yield f"`{command}`: no option {name}"
        elif value and project.options[name] is not None and value not in project.options[name]:
            yield f"`{command}`: option {name} does not take {value}"


def check_command(project, command):
    words = re.sub(r"^(\w+=\S*\s+)+", "", command).split()
    if words[0] == "./dev" and len(words) > 1:
        if words[1] not in project.verbs:
            yield f"`{command}`: no verb {words[1]}"
        for word, value in zip(words[1:], words[2:] + [""]):
            if word == "--only" and value not in project.flavours | {"FLAVOUR"}:
                yield f"`{command}`: no flavour {value}"
            if word == "--filter" and not PLACEHOLDER.search(value) and value != "TEST":
                if not any((project.root / "tests").rglob(f"{value}.*")):
                    yield f"`{command}`: no test {value}"
            if words[1] == "test" and word.startswith("--") and word not in project.verb_options:
                yield f"`{command}`: no option {word}"
        if words[1] == "bench" and len(words) > 2 and words[2] not in ("report", "--report", "NAME"):
            if not (project.root / "bench" / f"{words[2]}.cc").exists():
                yield f"`{command}`: no benchmark {words[2]}"
    elif re.match(r"(\./)?(build[^/]*|bench|examples|tests)/", words[0]):
        if not PLACEHOLDER.search(words[0]) and not project.program_exists(words[0]):
            yield f"`{command}`: no {words[0]}"
    yield from check_options(project, command)


def check_shell_blocks(project, path, text):
    for language, block in FENCE.findall(text):
        if language != "sh":
            continue
        for line in block.replace("\\\n", " ").splitlines():
            line = line.split(" #")[0].strip()
            for command in re.split(r"&&|\||;", line):
                if command.strip():
                    yield from check_command(project, command.strip())


def check_code_spans(project, path, text):
    for line in FENCE.sub("", text).splitlines():
        if line.count("`") % 2:
            yield f"a code span crosses a line: {line.strip()}"


def check_results(project, path, text):
    if path.parent != project.root / "bench" / "results" or path.name == "README.md":
        return
    if not re.search(r"\bMachine: |same on every machine", text):
        yield "does not say on which machine it was measured"
    if not re.search(r"\bCommand: ", text):
        yield "does not say with which command it was measured"
    decisions = project.root / "docs" / "decisions.md"
    links = LINK.findall(decisions.read_text(encoding="utf-8"))
    if not any((decisions.parent / link.partition("#")[0]).resolve() == path for link in links):
        yield "docs/decisions.md does not link to it"


def check_mentions(project):
    """What comments in the code say about documents."""
    for room in (*ROOMS, "meson.build", "dev"):
        for path in sorted([project.root / room, *(project.root / room).rglob("*")]):
            if not path.is_file() or (path.suffix not in CODE_SUFFIXES and path.name != "dev"):
                continue
            text = re.sub(r"\s*\n\s*(?://|#)?\s*", " ", path.read_text(encoding="utf-8"))
            for document, title in MENTION.findall(text):
                other = project.root / document
                if PLACEHOLDER.search(document):
                    continue
                if not other.exists():
                    yield path, f"{document}: no such file"
                elif title and title not in titles(other):
                    yield path, f'{document} has nothing titled "{title}"'


def titles(path):
    """Headings, and what is bold at the beginning of a paragraph, without marks and last stop."""
    text = path.read_text(encoding="utf-8")
    found = re.findall(r"^#+ (.*)$", text, re.M) + re.findall(r"^\*\*(.+?)\*\*", text, re.M | re.S)
    return {re.sub(r"\s+", " ", title).replace("`", "").rstrip(".:") for title in found}


def main():
    root = pathlib.Path(sys.argv[1]).resolve()
    project = Project(root)
    errors = documents = 0
    for path in project.documents():
        documents += 1
        text = path.read_text(encoding="utf-8")
        for check in (check_links, check_names, check_shell_blocks, check_code_spans, check_results):
            for complaint in check(project, path, text):
                print(f"{path.relative_to(root)}: {complaint}")
                errors += 1
    for path, complaint in check_mentions(project):
        print(f"{path.relative_to(root)}: {complaint}")
        errors += 1
    print(f"docs: {documents} documents, {errors} wrong names")
    sys.exit(1 if errors or not documents else 0)


if __name__ == "__main__":
    main()
