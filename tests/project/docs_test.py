#!/usr/bin/env python3
"""Checks that what the documents name exists.

  docs_test.py ROOT

For every Markdown file: links to files and headings resolve; files named in the text exist; no
code span crosses a line; the commands in shell blocks and code spans use verbs, flavours, tests, build
options, benchmarks and examples that there are. Code below a line that links to its file is what that
file has. Every file of bench/results/ names its machine and a command, and a decision links to it.
Documents that comments in the code name exist, and so do the headings that they quote from them. Tests that
docs/promises.md names exist, and each promise there has one.

The README has at most 150 lines. A decision has a number, a date, a context and a decision, at most 200
words, and names the one that supersedes it, which names it, too; the index lists each once. A document
links the terms of the glossary where it uses them first.
"""

import pathlib
import re
import sys

from rooms import House

LINK = re.compile(r"(?<!!)\[[^\]]+\]\(([^)\s]+)\)")
CODE = re.compile(r"`([^`\n]+)`")
FENCE = re.compile(r"^ *```([^`\n]*)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
CODE_SUFFIXES = {".h", ".cc", ".py", ".build", ".in"}
# `docs/NAME.md`, or `docs/NAME.md, "Title"`, in a comment whose lines have been joined.
MENTION = re.compile(r'\b(docs/[\w/-]+\.md)(?:, "([^"]+)")?')
# A line that links to a file and ends in a colon, and the code below it.
QUOTED = re.compile(r"^ *\[[^\]]+\]\(([^)\s]+)\):\n\n( *)```\w+\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
README_LINES = 150
DECISION_WORDS = 200
# Terms that a reader meets nowhere else, as the glossary's headings have them, and how texts use them.
TERMS = {"alias": r"alias(?:es)?", "bucket": "buckets?", "forecast": "forecasts?", "order-of-need": "order of need",
         "reservation": "reservations?", "scratch": "scratch", "splitter": "splitters?", "walk": "walks?",
         "window": "windows?"}
EXPLAINS = ("index", "life_of_a_fault", "life_of_a_sort", "limits", "tuning")
PLACEHOLDER = re.compile(r"\b(NAME|ROOM|FILE|FOLDER|FLAVOUR)\b|[*…<>{}]|_test\.cc$")
MESON_BUILTIN = {"buildtype", "prefix", "libdir", "b_sanitize", "b_lto", "werror", "cpp_args",
                 "default_library", "b_lundef", "strip"}


def anchor(heading):
    text = re.sub(r"[^\w\- ]", "", heading.strip().lower())
    return text.replace(" ", "-")


class Project:
    def __init__(self, root):
        self.root = root
        house = House(root)
        self.folders = [*house.tops(), *house.users, "docs", "man"]
        self.headers = {path.name for top in (*self.folders, "python") for path in (root / top).rglob("*.h")}
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
            return name == "vortex" and any((self.root / "cli").rglob("*.cc"))
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
        elif re.match(rf"({'|'.join(project.folders)})/[\w./-]*$", word) and not PLACEHOLDER.search(word):
            public = word.startswith("vortex/") and (project.root / "include" / word).is_file()
            if not public and not (project.root / word).exists():
                yield f"`{word}`: no such file"
        elif re.fullmatch(r"\w+\.h", word):
            if word not in project.headers:
                yield f"`{word}`: no header has that name"
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
        if words[1] == "bench" and len(words) > 2 and words[2] not in ("report", "--report", "NAME", "python", "ray"):
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
    decisions = project.root / "docs" / "decisions"
    links = {(decisions / link.partition("#")[0]).resolve() for decision in decisions.glob("[0-9]*.md")
             for link in LINK.findall(decision.read_text(encoding="utf-8"))}
    if path not in links:
        yield "no decision links to it"


def check_quoted_code(project, path, text):
    """The code below a link to its file is a part of that file, at whatever depth."""
    def lines(code):
        found = [line.rstrip() for line in code.splitlines()]
        depth = min((len(line) - len(line.lstrip()) for line in found if line), default=0)
        return [line[depth:] for line in found]
    for target, _, code in QUOTED.findall(text):
        wanted = lines(code)
        has = (path.parent / target).read_text(encoding="utf-8").splitlines()
        if not any(lines("\n".join(has[at:at + len(wanted)])) == wanted for at in range(len(has))):
            yield f"{target} does not have the code that is shown: {wanted[0]}"


def check_readme_length(project, path, text):
    if path == project.root / "README.md" and len(text.splitlines()) > README_LINES:
        yield f"more than {README_LINES} lines"


def check_decision(project, path, text):
    folder = project.root / "docs" / "decisions"
    if path.parent != folder:
        return
    if path.name == "README.md":
        listed = re.findall(r"^- \[(\d{4}) [^\]]*\]\((\d{4})-", text, re.MULTILINE)
        there = sorted(other.name[:4] for other in folder.glob("[0-9]*.md"))
        if sorted(number for number, _ in listed) != there or any(a != b for a, b in listed):
            yield "does not list every decision once"
        if there != [f"{number:04d}" for number in range(1, len(there) + 1)]:
            yield "the numbers have gaps"
        return
    if not text.startswith(f"# {int(path.name[:4])}. "):
        yield "its title does not begin with its number"
    if not re.search(r"^Accepted \d{4}-\d\d-\d\d[.,]", text, re.MULTILINE):
        yield "does not say when it was accepted"
    for part in ("Context", "Decision"):
        if f"\n\n**{part}.** " not in text:
            yield f"has no {part.lower()}"
    if len(text.split()) > DECISION_WORDS:
        yield f"more than {DECISION_WORDS} words"
    status = " ".join(text.split("\n\n")[1].split())
    superseded = re.search(r"superseded \d{4}-\d\d-\d\d by \[\d{4}\]\(([\w-]+\.md)\)", status)
    if superseded and (folder / superseded[1]).exists():
        later = (folder / superseded[1]).read_text(encoding="utf-8")
        if not re.search(rf"Supersedes [^.]*\[{path.name[:4]}\]", later):
            yield f"{superseded[1]} does not say that it supersedes it"


def check_terms(project, path, text):
    """The first use of a term in the text, headings and tables aside, is a link to the glossary."""
    if path.parent != project.root / "docs" or path.stem not in EXPLAINS:
        return
    text = "\n".join(line for line in FENCE.sub("", text).splitlines() if not line.startswith(("#", "|", "!")))
    text = re.sub(r"`[^`]*`", "", text)
    for term, words in TERMS.items():
        first = re.search(rf"\b{words}\b", text, re.IGNORECASE)
        if first and not re.match(rf"[^\]]*\]\(glossary\.md#{term}\)", text[first.start():]):
            yield f"'{first[0]}' is not linked where it is used first: ...{text[first.start() - 40:first.end()]!r}"


def check_mentions(project):
    """What comments in the code say about documents."""
    for room in (*project.folders, "meson.build", "dev"):
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


def tests_by_name(project):
    """Suites with cases of GoogleTest, classes with tests of Python, and files."""
    names = set()
    for path in (project.root / "tests").rglob("*_test.*"):
        if path.suffix == ".pyc":
            continue
        names.add(path.stem)
        text = path.read_text(encoding="utf-8")
        cases = re.findall(r"^(?:TYPED_)?TEST(?:_F|_P)?(?:_OF_ONE_THREAD)?\((\w+),\s*(\w+)\)", text, re.M)
        names.update(f"{suite}.{case}" for suite, case in cases)
        for part in re.split(r"^(?=class )", text, flags=re.M) if path.suffix == ".py" else ():
            names.update(f"{part[6:].split('(')[0]}.{test}" for test in re.findall(r"    def (test_\w+)", part))
    return names


def check_promises(project, path, text):
    """Every promise has a test and a campaign, and every test that is named exists."""
    if path != project.root / "docs" / "promises.md":
        return
    known = tests_by_name(project)
    for name in CODE.findall(text):
        if re.fullmatch(r"[A-Z]\w+\.\w+|\w+_test", name) and name not in known:
            yield f"`{name}`: no such test"
    rows = re.findall(r"^\| (.*?) \| (.*?) \|(.*)\|$", text, re.MULTILINE)[1:]
    if not rows:
        yield "promises nothing"
    for promise, tests, campaign in rows:
        if not CODE.search(tests):
            yield f"no test would fail without: {promise}"
        if not campaign.strip():
            yield f"no campaign tries to break: {promise}"


CHECKS = (check_links, check_names, check_shell_blocks, check_code_spans, check_results, check_quoted_code,
          check_readme_length, check_decision, check_terms, check_promises)


def main():
    root = pathlib.Path(sys.argv[1]).resolve()
    project = Project(root)
    errors = documents = 0
    for path in project.documents():
        documents += 1
        text = path.read_text(encoding="utf-8")
        for check in CHECKS:
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
