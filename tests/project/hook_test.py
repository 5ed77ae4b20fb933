#!/usr/bin/env python3
"""Makes commits with the hook of .githooks installed.

  hook_test.py SOURCE_ROOT

The hook lets a good commit pass, and refuses one with code that is not formatted, with an include that
points up, or with a link to nothing. It looks at what would be committed, not at the files beside it.
"""

import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

SOURCE_ROOT = pathlib.Path(sys.argv[1]).resolve()
SKIPPED = 77
HEADER = "vortex/thread/futex.h"


class Hook(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.tree = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory())) / "tree"
        listed = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
                                cwd=SOURCE_ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout
        for name in filter(None, listed.split("\0")):
            if (SOURCE_ROOT / name).is_file():
                (cls.tree / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(SOURCE_ROOT / name, cls.tree / name)
        cls.git("init", "-q", ".")
        cls.git("config", "user.name", "nobody")
        cls.git("config", "user.email", "nobody@example.org")
        cls.git("add", "-A")
        cls.git("commit", "-q", "-m", "all")
        cls.git("config", "core.hooksPath", ".githooks")

    @classmethod
    def git(cls, *arguments, check=True):
        return subprocess.run(["git", *arguments], cwd=cls.tree, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, check=check)

    def tearDown(self):
        self.git("reset", "-q", "--hard", "HEAD")

    def commit_with(self, name, text):
        path = self.tree / name
        path.write_text(path.read_text(encoding="utf-8") + text)
        self.git("add", name)
        return self.git("commit", "-q", "-m", "a change", check=False)

    def assert_refused(self, done, why):
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn(why, done.stdout)

    def test_good_changes_pass(self):
        self.assertEqual(self.commit_with(HEADER, "// One more comment.\n").returncode, 0)
        self.assertEqual(self.commit_with("README.md", "").returncode, 1)  # there is nothing to commit
        self.assertEqual(self.commit_with("CONTRIBUTING.md", "\nA good change.\n").returncode, 0)

    def test_bad_format_is_refused(self):
        self.assert_refused(self.commit_with(HEADER, "int  x;\n"), "clang-format")

    def test_an_include_that_points_up_is_refused(self):
        self.assert_refused(self.commit_with(HEADER, '#include "vortex/stream/block_window.h"\n'), "not below")

    def test_a_link_to_nothing_is_refused(self):
        self.assert_refused(self.commit_with("CONTRIBUTING.md", "\n[Nothing](nothing.md)\n"), "no such file")

    def test_only_what_is_committed_counts(self):
        (self.tree / "README.md").write_text("[Nothing](nothing.md)\n")
        self.assertEqual(self.commit_with("CONTRIBUTING.md", "\nAnother one.\n").returncode, 0)


if __name__ == "__main__":
    missing = [tool for tool in ("git", "clang-format") if not shutil.which(tool)]
    if missing or not (SOURCE_ROOT / ".git").exists():
        print(f"without {', '.join(missing) or 'a clone'} nothing can be committed (./dev setup installs the tools)")
        sys.exit(SKIPPED)
    unittest.main(argv=sys.argv[:1])
