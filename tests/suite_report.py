#!/usr/bin/env python3
"""Turns the logs of `meson test` into one line a suite; used by `./dev test`.

  suite_report.py suites FLAVOUR BUILD_FOLDER OUTPUT TOTALS   lines of one finished run
  suite_report.py broken FLAVOUR STEP SECONDS TOTALS          the flavour did not get that far
  suite_report.py close TOTALS                                the closing line
  suite_report.py programs BUILD_FOLDER TEST...               what tests need built, for ninja; a name that
                                                              no test has is an error
  suite_report.py known BUILD_FOLDER TEST...                  those of them that the flavour has

TOTALS is a file that gathers `passed failed skipped` of all runs. What is counted are the single
test cases of a GoogleTest program, and 1 for any other program. A program that failed without a
failed case (a crash, a time limit, a sanitizer's report at exit) counts as one failure more. The
output of a program that failed is printed, of a long one what tells of failures and its end, and so is
the reason of each skip. The closing line comes behind the first words of each failure, and how to
repeat it: whoever sees only the end of a long output sees what failed. Exit status 1 says that
something failed, or that nothing was run.
"""

import collections
import json
import pathlib
import re
import sys
import xml.etree.ElementTree as ElementTree

KEPT_LINES, KEPT_COLUMNS = 400, 2000
# Of a failure, in front of the closing line; and blocks of each stream of a program
# that left no log of its cases.
SHOWN_LINES, SHOWN_COLUMNS = 12, 400
SHOWN_BLOCKS = 3

# What a block of lines that tells of a failure begins with, and what it has in it or behind it.
GTEST_FAILURE = re.compile(r"\S.*:\d+: Failure$|unknown file: Failure$")
SANITIZER_REPORT = re.compile(r"(==\d+==)?(ERROR|WARNING): \w+Sanitizer|.*: runtime error: ")
PYTHON_FAILURE = re.compile(r"(FAIL|ERROR): \w+ \(|Traceback \(most recent call last\):$")
STACK_FRAME = re.compile(r" +#\d+ ")
GTEST_STEP = re.compile(r"\[ *([-=A-Z]+) *\]")
RULE = re.compile(r"[-=]{70}")


class Counts:
    def __init__(self):
        self.passed = self.failed = self.skipped = 0
        self.seconds = 0.0

    def text(self):
        parts = [f"{self.passed} passed"]
        if self.failed:
            parts.append(f"{self.failed} failed")
        if self.skipped:
            parts.append(f"{self.skipped} skipped")
        return ", ".join(parts)


def read_cases(folder):
    """{program: (passed, [(case, failure)], [(case, reason of the skip)])} from what GoogleTest wrote."""
    cases = {}
    for file in folder.glob("*.xml"):
        try:
            root = ElementTree.parse(file).getroot()
        except ElementTree.ParseError:
            continue  # The program died while writing; its exit status tells.
        passed = 0
        failures, skips = [], []
        for case in root.iter("testcase"):
            name = f"{case.get('classname')}.{case.get('name')}"
            skip = case.find("skipped")
            failure = case.find("failure")
            if failure is not None:
                failures.append((name, failure.text or ""))
            elif skip is not None:
                lines = (skip.text or "").splitlines()
                skips.append((name, " ".join(lines[1:]).strip() or "no reason given"))
            elif case.get("status") == "run":
                passed += 1
        cases[file.stem] = (passed, failures, skips)
    return cases


def name_of(run):
    return run["name"].split(" / ")[-1]


def begins_block(line):
    return GTEST_FAILURE.match(line) or SANITIZER_REPORT.match(line) or PYTHON_FAILURE.match(line)


def sanitizer_block(lines):
    """A report up to the end of its first stack, and its summary."""
    end = 1
    while end < len(lines) and not begins_block(lines[end]) and not GTEST_STEP.match(lines[end]) and (
            STACK_FRAME.match(lines[end]) or not STACK_FRAME.match(lines[end - 1])):
        end += 1
    summary = [line for line in lines if line.startswith("SUMMARY: ")][:1]
    block = [line for line in lines[:end] if line.strip() and line not in summary]
    return block[:SHOWN_LINES - 1] + summary, end


def python_block(lines):
    """The name of a case, where a rule follows it, and the end of its traceback, which names the error."""
    begin = 2 if len(lines) > 1 and RULE.match(lines[1]) else 1
    end = next((at for at in range(begin, len(lines)) if not lines[at].strip()), len(lines))
    return lines[:1] + lines[max(begin, end - SHOWN_LINES + 1):end], end


def gtest_block(lines):
    end = 1
    while end < len(lines) and not begins_block(lines[end]) and not GTEST_STEP.match(lines[end]):
        end += 1
    return lines[:min(end, SHOWN_LINES)], end


def telling_blocks(lines):
    """Blocks of lines that tell of failures, each behind the case that it is of and the seed that repeats it."""
    blocks, case, at = [], [], 0
    while at < len(lines):
        line = lines[at]
        end = 1
        if step := GTEST_STEP.match(line):
            case = [line] if step[1] == "RUN" else []
        elif case and line.startswith("random seed: "):
            case.append(line)
        elif begins_block(line):
            of_kind = (gtest_block if GTEST_FAILURE.match(line) else
                       sanitizer_block if SANITIZER_REPORT.match(line) else python_block)
            block, end = of_kind(lines[at:])
            blocks.append(case + block)
        at += end
    return blocks


def print_output(flavour, run):
    print(f"---- {flavour}: {name_of(run)}: {run['result']} (exit status {run['returncode']}) ----")
    for stream in ("stdout", "stderr"):
        lines = run.get(stream, "").splitlines()
        if len(lines) > KEPT_LINES:
            telling = sum(telling_blocks(lines[:-KEPT_LINES]), [])
            print(f"[{len(lines) - KEPT_LINES} lines left out, but of failures]")
            lines = telling[:KEPT_LINES] + lines[-KEPT_LINES:]
        for line in lines:
            print(line[:KEPT_COLUMNS])
    print(f"---- end of {name_of(run)} ----")


def shown(flavour, name, lines):
    """What the closing report says of a failure."""
    return [f"failed  {flavour}: {name}", *(f"        {line[:SHOWN_COLUMNS]}" for line in lines)]


def first_words(flavour, run, failures):
    """Those of each failed case, and how to repeat it; without cases what tells of a failure, else the end."""
    streams = [run.get(stream, "").splitlines() for stream in ("stdout", "stderr")]
    printed = sum(streams, [])
    if not failures:
        blocks = sum((telling_blocks(stream)[:SHOWN_BLOCKS] for stream in streams), [])
        telling = sum(blocks, [])
        return shown(flavour, name_of(run), telling or [line for line in printed if line.strip()][-SHOWN_LINES:])
    seeds = dict.fromkeys(line for line in printed if line.startswith("random seed: "))
    lines = []
    for case, text in failures:
        repeat = [line for line in seeds if line.endswith(f"={case}")]
        lines += shown(flavour, f"{name_of(run)}, {case}", text.splitlines()[:SHOWN_LINES] + repeat)
    return lines


def add_to_totals(totals, counts, failures=()):
    with open(totals, "a", encoding="utf-8") as file:
        file.write(f"{counts.passed} {counts.failed} {counts.skipped}\n")
        file.writelines(f"!{line}\n" for line in failures)


def report_suites(flavour, folder, output, totals):
    folder = pathlib.Path(folder)
    log = folder / "meson-logs" / "testlog.json"
    runs = []
    if log.exists():
        runs = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    suite_of = {}
    for test in json.loads((folder / "meson-info" / "intro-tests.json").read_text()):
        suite_of[test["name"]] = test["suite"][0].split(":")[-1]

    cases = read_cases(folder)
    suites = collections.defaultdict(Counts)
    skips, failed_ones = [], []
    for run in runs:
        name = name_of(run)
        suite = suites[suite_of.get(name, "?")]
        suite.seconds += run["duration"]
        good = run["result"] in ("OK", "EXPECTEDFAIL")
        if name in cases:
            passed, failures, skipped = cases[name]
            suite.passed += passed
            suite.failed += len(failures) if failures or good else 1
            suite.skipped += len(skipped)
            skips += skipped
        elif run["result"] == "SKIP":
            suite.skipped += 1
            skips.append((name, (run.get("stdout", "").splitlines() or ["no reason given"])[-1]))
        elif good:
            suite.passed += 1
        else:
            suite.failed += 1
        if run["result"] not in ("OK", "EXPECTEDFAIL", "SKIP"):
            print_output(flavour, run)
            failed_ones += first_words(flavour, run, cases[name][1] if name in cases else [])

    total = Counts()
    for suite, counts in suites.items():
        print(f"{flavour:7} {suite:8} {counts.text()}, {counts.seconds:.1f} s")
        total.passed += counts.passed
        total.failed += counts.failed
        total.skipped += counts.skipped
    by_reason = collections.defaultdict(list)
    for name, reason in skips:
        by_reason[reason].append(name)
    for reason, names in by_reason.items():
        others = f" and {len(names) - 1} more" if len(names) > 1 else ""
        print(f"        skipped {names[0]}{others}: {reason}")
    if not runs:
        print(pathlib.Path(output).read_text(encoding="utf-8", errors="replace"))
        print(f"{flavour:7} -        1 failed: no test was run")
        total.failed += 1
    add_to_totals(totals, total, failed_ones)
    return 1 if total.failed else 0


def report_broken(flavour, step, seconds, totals):
    counts = Counts()
    counts.failed = 1
    print(f"{flavour:7} -        1 failed: {step} after {seconds} s")
    add_to_totals(totals, counts)
    return 1


def close(totals):
    counts = Counts()
    with open(totals, encoding="utf-8") as file:
        for line in file:
            if line.startswith("!"):
                print(line[1:], end="")
                continue
            passed, failed, skipped = map(int, line.split())
            counts.passed += passed
            counts.failed += failed
            counts.skipped += skipped
    closing = f"{counts.passed} passed, {counts.failed} failed"
    if counts.skipped:
        closing += f", {counts.skipped} skipped"
    print(closing)
    return 1 if counts.failed or not counts.passed else 0


def programs(folder, *names):
    folder = pathlib.Path(folder).resolve()
    information = folder / "meson-info"
    targets = json.loads((information / "intro-targets.json").read_text())
    files_of = {target["id"]: target["filename"] for target in targets}
    files = set()
    tests = json.loads((information / "intro-tests.json").read_text())
    unknown = sorted(set(names) - {test["name"] for test in tests})
    # The thread sanitizer leaves out what has no threads.
    left_out = {path.stem for path in pathlib.Path(__file__).parent.glob("*/*_test.*")}
    if folder.name == "build-tsan" and left_out.issuperset(unknown):
        print("tsan leaves out", ", ".join(unknown), file=sys.stderr)
    elif unknown:
        sys.exit(f"there is no test {', no test '.join(unknown)}; meson test -C {folder} --list names all")
    for test in tests:
        if test["name"] in names:
            needed = [test["cmd"][0], *(file for each in test["depends"] for file in files_of[each])]
            files |= {file for file in map(pathlib.Path, needed) if folder in file.parents}
    for file in sorted(files):
        print(file.relative_to(folder))


def known(folder, *names):
    tests = json.loads((pathlib.Path(folder) / "meson-info/intro-tests.json").read_text())
    print("\n".join(name for name in names if name in {test["name"] for test in tests}))


def main():
    actions = {"programs": programs, "known": known, "suites": report_suites, "broken": report_broken, "close": close}
    if len(sys.argv) < 3 or sys.argv[1] not in actions:
        sys.exit(__doc__)
    sys.exit(actions[sys.argv[1]](*sys.argv[2:]))


if __name__ == "__main__":
    main()
