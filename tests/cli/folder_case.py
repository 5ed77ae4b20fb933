"""What the tests of the programs have in common: a folder for each, choices that can be repeated, programs
that run under limits, and pipes with their writers.

The first arguments of a test are programs; `--sanitized` behind them tells that sanitizers are compiled in.
"""

import contextlib
import os
import pathlib
import random
import resource
import subprocess
import sys
import tempfile
import threading
import unittest

GNU = "/usr/bin/sort"
LEAKS = pathlib.Path(__file__).resolve().parent.parent / "support" / "glibc_leaks.supp"
LONG = "VORTEX_LONG_TESTS" in os.environ
SEED = int(os.environ.get("VORTEX_TEST_SEED", random.randrange(2**32)))
SANITIZED = "--sanitized" in sys.argv[1:]
PROGRAMS = [pathlib.Path(argument).resolve() for argument in sys.argv[1:] if argument != "--sanitized"]
NOBODYS_UID = 54321  # nobody has it, so that what it may start is known
WORDS = [b"", b"a", b"B", b"10", b"9", b"-3", b"1.5K", b"2M", b"jan", b"Feb", b"v1.2", b"v1.10",
         b"foo bar", b"\xc3\xa9", b"\xff\xfe", b"\0", b"x\0y", b"007", b".5", b"~", b"a" * 300, b"\r",
         b"1e3", b"\t"]


class Share(unittest.TestLoader):
    """Of the cases those that GoogleTest would run by the same variables (`./dev test --all` with sanitizers)."""
    def getTestCaseNames(self, testCaseClass):
        shares, index = (int(os.environ.get(f"GTEST_{name}", default))
                         for name, default in (("TOTAL_SHARDS", 1), ("SHARD_INDEX", 0)))
        return super().getTestCaseNames(testCaseClass)[index::shares]


def main():
    print(f"seed: {SEED} (VORTEX_TEST_SEED)")
    unittest.main(module="__main__", argv=sys.argv[:1], testLoader=Share())


def under(limits, threads=None):
    """For preexec_fn: limits as {resource: bytes or count}, and as many threads for a user without rights,
    the first included."""
    def set_limits():
        for which, value in limits.items():
            resource.setrlimit(which, (value, value))
        if threads is not None:
            resource.setrlimit(resource.RLIMIT_NPROC, (threads, threads))
            os.setgroups([])
            os.setgid(NOBODYS_UID)
            os.setuid(NOBODYS_UID)
    return set_limits


class FolderCase(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.folder.chmod(0o777)  # for users without rights as well
        self.random = random.Random(f"{SEED} {self.id()}")

    def put(self, name, data):
        (self.folder / name).write_bytes(data)
        (self.folder / name).chmod(0o644)
        return name

    def environment(self, **more):
        variables = {"LC_ALL": "C", "LANGUAGE": "en", "TMPDIR": str(self.folder),
                     "LSAN_OPTIONS": f"print_suppressions=0:suppressions={LEAKS}", **more}
        # The locale C needs no folder of locales; what glibc loses of its name takes a sanitizer long to name.
        if variables["LC_ALL"] != "C":
            variables.setdefault("LOCPATH", os.environ.get("LOCPATH", ""))
        return variables

    def run_program(self, program, arguments, stdin=b"", name="sort", limit=None, variables=(), **how):
        """Runs a program in the folder under this name. `stdin` is bytes or a file, `limit` as under() makes
        it."""
        how["input" if isinstance(stdin, bytes) else "stdin"] = stdin
        if "stdout" not in how and "stderr" not in how:
            how["capture_output"] = True
        return subprocess.run([name, *map(str, arguments)], executable=program, cwd=self.folder, check=False,
                              env=self.environment(**dict(variables)), preexec_fn=limit,
                              **{"timeout": 120, **how})

    def run_verb(self, program, *arguments, code=0, **how):
        """Runs a verb of the program vortex, which must end with this code."""
        done = self.run_program(program, arguments, name="vortex", **how)
        self.assertEqual(done.returncode, code, f"{arguments}: {done.stdout[-500:]} {done.stderr.decode()}")
        return done

    def refusal_of(self, program, *arguments, **how):
        """The one line that an error prints, without the program's name."""
        done = self.run_verb(program, *arguments, code=2, **how)
        lines = done.stderr.decode().splitlines()
        self.assertEqual(len(lines), 1, lines)
        self.assertTrue(lines[0].startswith("vortex: "), lines)
        self.assertEqual(done.stdout, b"")
        return lines[0].removeprefix("vortex: ")

    def expect_same(self, ours, theirs, context, errors=True):
        """The same exit code, output and, unless they may differ, messages."""
        context = f"seed {SEED}: {context}\nours: {ours.stderr[:500]}\nGNU: {theirs.stderr[:500]}"
        self.assertEqual(ours.returncode, theirs.returncode, context)
        if ours.stdout != theirs.stdout:
            at = next((i for i, (a, b) in enumerate(zip(ours.stdout, theirs.stdout)) if a != b),
                      min(len(ours.stdout), len(theirs.stdout)))
            self.fail(f"{context}\noutputs differ at {at}:\n{ours.stdout[max(at - 80, 0):at + 40]}\n"
                      f"{theirs.stdout[max(at - 80, 0):at + 40]}")
        if errors:
            self.assertEqual(ours.stderr, theirs.stderr, context)

    @contextlib.contextmanager
    def pipes(self, texts):
        """Names of pipes with these texts, each written by a thread of its own as its reader comes. At the
        end no writer waits for a pipe that nobody has read."""
        paths = [self.folder / f"pipe{i}" for i in range(len(texts))]

        def write(path, text):
            with contextlib.suppress(BrokenPipeError):  # the reader has ended before
                path.write_bytes(text)

        writers = [threading.Thread(target=write, args=pair) for pair in zip(paths, texts)]
        for path, writer in zip(paths, writers):
            os.mkfifo(path)
            path.chmod(0o666)
            writer.start()
        try:
            yield [path.name for path in paths]
        finally:
            for path in paths:
                os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK))
            for path, writer in zip(paths, writers):
                writer.join()
                path.unlink()
