"""What the tests of the programs have in common: a folder for each, and choices that can be repeated."""

import os
import pathlib
import random
import tempfile
import unittest

GNU = "/usr/bin/sort"
LEAKS = pathlib.Path(__file__).resolve().parent.parent / "support" / "glibc_leaks.supp"
LONG = "VORTEX_LONG_TESTS" in os.environ
SEED = int(os.environ.get("VORTEX_TEST_SEED", random.randrange(2**32)))


class FolderCase(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)
        self.folder.chmod(0o777)  # for users without rights as well
        self.random = random.Random(f"{SEED} {self.id()}")

    def put(self, name, data):
        (self.folder / name).write_bytes(data)
        (self.folder / name).chmod(0o644)
        return name
