#!/usr/bin/env python3
"""Runs the recipes of docs/cookbook.md and compares with other programs and with Python.

usage: cookbook_test.py FOLDER_OF_RECIPES SOURCE_ROOT

The page shows a source for each of its recipes, and each of these is run here.
"""

import collections
import csv
import pathlib
import random
import re
import struct
import subprocess
import sys
import tempfile
import unittest

RECIPES = pathlib.Path(sys.argv[1])
ROOT = pathlib.Path(sys.argv[2])
PAGE = ROOT / "docs" / "cookbook.md"


def shown_sources():
    """The sources that the page shows, in its order."""
    return re.findall(r"^\[examples/(\S+)\.cc\]\(\.\./examples/\1\.cc\):$",
                      PAGE.read_text(encoding="utf-8"), re.MULTILINE)


def program(name):
    """A recipe's own, or an example that is a recipe as well."""
    path = RECIPES / name
    return path if path.exists() else RECIPES.parent / name


class Cookbook(unittest.TestCase):
    def setUp(self):
        self.path = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.seed = random.randrange(2**32)
        self.random = random.Random(self.seed)

    def output(self, name, *arguments, **options):
        done = subprocess.run([program(name), *map(str, arguments)], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, check=False, **options)
        self.assertEqual(done.returncode, 0, (f"seed {self.seed}", done.stderr))
        return done.stdout

    def assert_same(self, got, expected):
        """As assertEqual(), which takes minutes to tell how two long lists differ."""
        if got != expected:
            at = next((i for i, (a, b) in enumerate(zip(got, expected)) if a != b),
                      min(len(got), len(expected)))
            self.fail(f"{len(got)} and {len(expected)} rows differ at {at}: {got[at:at + 3]} and "
                      f"{expected[at:at + 3]} (seed {self.seed})")

    def write(self, name, form, rows):
        """A file of packed rows. Returns its path."""
        file = self.path / name
        file.write_bytes(b"".join(struct.pack(form, *row) for row in rows))
        return file

    def numbers(self, name, values):
        return self.write(name, "<Q", [(value,) for value in values])

    def read(self, name, form):
        return list(struct.iter_unpack(form, (self.path / name).read_bytes()))

    def values(self, name):
        return [value for value, in self.read(name, "<Q")]

    def text_of_many_blocks(self):
        words = [bytes(self.random.choices(b"abcdefgh", k=self.random.randint(1, 12)))
                 for _ in range(1000)]
        separators = [b" ", b"\n"]
        once = b"".join(word + self.random.choice(separators) for word in words)
        return once * (9_000_000 // len(once))

    def test_count_lines(self):
        file = self.path / "text"
        file.write_bytes(self.text_of_many_blocks())
        wc = subprocess.run(["wc", file], stdout=subprocess.PIPE, check=True, env={"LC_ALL": "C"})
        self.assertEqual(self.output("count_lines", file).split(), wc.stdout.split()[:3])

    def test_compress_file(self):
        if not program("compress_file").exists():
            self.skipTest("built without zstd (Debian: libzstd-dev)")
        file, small = self.path / "text", self.path / "text.zst"
        # Text that compresses well, and bytes that do not.
        content = self.text_of_many_blocks() + self.random.randbytes(5_000_000)
        for data in (content, b"", b"one line\n"):
            file.write_bytes(data)
            self.output("compress_file", file, small)
            back = subprocess.run(["python3", "-c", ZSTD_BACK, small], stdout=subprocess.PIPE,
                                  check=True)
            self.assert_same(back.stdout, data)

    def test_histogram(self):
        # A whole block exactly, less, more, and nothing.
        for length in (0, 1, 2 << 20, (2 << 20) + 1, 7_000_003):
            data = self.random.randbytes(length)
            counted = {int(value): int(count) for value, count in
                       (line.split() for line in self.output("histogram", input=data).splitlines())}
            self.assertEqual(counted, dict(collections.Counter(data)), f"seed {self.seed}")

    def test_join_files(self):
        def rows(count):
            return sorted((self.random.randrange(50_000), self.random.randrange(2**64))
                          for _ in range(count))
        left, right = rows(30_000), rows(200_000)
        by_key = collections.defaultdict(list)
        for key, value in right:
            by_key[key].append(value)
        joined = [(key, value, other) for key, value in left for other in by_key[key]]
        self.output("join_files", self.write("left", "<QQ", left),
                    self.write("right", "<QQ", right), self.path / "joined")
        self.assert_same(self.read("joined", "<QQQ"), joined)

    def test_merge_files(self):
        parts = [sorted(self.random.randrange(2**64) for _ in range(count))
                 for count in (0, 1, 1000, 400_000)]
        files = [self.numbers(f"part {i}", part) for i, part in enumerate(parts)]
        self.output("merge_files", self.path / "merged", *files)
        self.assert_same(self.values("merged"), sorted(sum(parts, [])))

    def test_sort_trades(self):
        symbols = [b"AAPL", b"IBM", b"X"]
        trades = [(self.random.choice(symbols), self.random.randrange(1000), float(i))
                  for i in range(100_000)]
        file = self.write("trades", "<8sQd", trades)
        self.output("sort_trades", file, self.path / "sorted")
        # Stable, as sorted() is: the prices tell.
        self.assert_same(self.read("sorted", "<8sQd"),
                         sorted(self.read("trades", "<8sQd"), key=lambda trade: trade[:2]))

    def test_top_numbers(self):
        values = [self.random.randrange(2**64) for _ in range(300_000)]
        file = self.numbers("numbers", values)
        for k in (0, 1, 10):
            top = list(map(int, self.output("top_numbers", file, k).split()))
            self.assertEqual(top, sorted(values, reverse=True)[:k], f"seed {self.seed}")
        few = self.numbers("few", [5, 7])
        self.assertEqual(self.output("top_numbers", few, 10), b"7\n5\n")

    def test_remove_duplicates(self):
        values = [self.random.randrange(1000) for _ in range(50_000)]
        text = self.output("remove_duplicates", self.numbers("numbers", values),
                           self.path / "distinct")
        self.assert_same(self.values("distinct"), sorted(set(values)))
        self.assertEqual(text.decode(), f"{len(set(values))} of 50000 numbers are left\n")

    def test_split_numbers(self):
        values = [self.random.randrange(2**64) for _ in range(50_000)]
        text = self.output("split_numbers", self.numbers("numbers", values), self.path / "part", 5)
        lengths = [int(line.split()[-1]) for line in text.decode().splitlines()]
        parts = [self.values(f"part.{i:05}") for i in range(5)]
        self.assertEqual(lengths, list(map(len, parts)))
        self.assertEqual([value for part in parts for value in sorted(part)], sorted(values), f"seed {self.seed}")

    def test_sort_vector(self):
        numbers = [i * 0x9E3779B97F4A7C15 % 2**64 for i in range(3_000_000)]
        self.assertEqual(self.output("sort_vector").decode().splitlines(),
                         [f"{min(numbers)} ... {max(numbers)}", "item 4 costs 120",
                          "item 1 costs 9.5", "item 3 costs 9.5", "item 2 costs -1"])

    def test_sort_table(self):
        rows = [(f"name, {i}" if i % 3 else f"two\nlines of {i}", str(self.random.randrange(1000)))
                for i in range(2000)]
        file = self.path / "table.csv"
        with open(file, "w", newline="", encoding="utf-8") as out:
            csv.writer(out, lineterminator="\n").writerows([("name", "price"), *rows])
        text = self.output("sort_table", file, 2, self.path / "sorted.csv")
        self.assertEqual(text, b"2000 rows\n")
        with open(self.path / "sorted.csv", newline="", encoding="utf-8") as sorted_file:
            head, *got = map(tuple, csv.reader(sorted_file))
        self.assertEqual(head, ("name", "price"))
        self.assertEqual([price for _, price in got], sorted((p for _, p in rows), key=int, reverse=True))
        self.assert_same(sorted(got), sorted(rows))

    def test_three_threads(self):
        limit = 1_000_000
        sieve = bytearray([1]) * limit
        sieve[0:2] = b"\0\0"
        for d in range(2, 1000):
            if sieve[d]:
                sieve[d * d::d] = bytes(len(range(d * d, limit, d)))
        primes = [i for i in range(limit) if sieve[i]]
        self.assertEqual(self.output("three_threads").decode(),
                         f"{len(primes)} primes below {limit}, their sum is {sum(primes)}\n")

    def test_custom_stream(self):
        text = self.output("custom_stream").decode()
        for start, steps in re.findall(r"(\d+) reaches 1 after (\d+) steps", text):
            value, count = int(start), 0
            while value > 1:
                value, count = value // 2 if value % 2 == 0 else 3 * value + 1, count + 1
            self.assertEqual(count, int(steps), start)
        # Five touches, one of them of a block that is still there.
        self.assertIn("4 page faults", text)

    def test_bucket_sort(self):
        # Blocks of 1 MiB, 128 buckets, ten levels; many keys agree in all their digits.
        values = [self.random.getrandbits(64) for _ in range(300_000)] + [7] * 200_000
        self.random.shuffle(values)
        text = self.output("bucket_sort", self.numbers("numbers", values), self.path / "sorted")
        self.assert_same(self.values("sorted"), sorted(values))
        own, peak = map(int, re.findall(r"\d+", text.decode()))
        self.assertEqual(own, len(values) * 8 // 2**20 + 1)
        self.assertLessEqual(peak, own + 2**7 + 40)

    def test_post_amounts(self):
        balances = [self.random.randrange(-2**40, 2**40) for _ in range(1_000_000)]
        postings = [(self.random.randrange(1_000_100), self.random.randrange(-1000, 1000))
                    for _ in range(5000)]
        text = self.output("post_amounts",
                           self.write("balances", "<q", [(balance,) for balance in balances]),
                           self.write("postings", "<Qq", postings))
        refused = sum(account >= len(balances) for account, _ in postings)
        for account, amount in postings:
            if account < len(balances):
                balances[account] += amount
        self.assert_same([balance for balance, in self.read("balances", "<q")], balances)
        self.assertEqual(text.decode(), f"5000 postings, {refused} of them to no account\n")

    def test_errors_are_told(self):
        for name in ("merge_files", "top_numbers", "remove_duplicates", "sort_table", "sort_trades",
                     "split_numbers"):
            absent, out = self.path / "absent", self.path / "out"
            arguments = {"merge_files": (out, absent), "top_numbers": (absent, 1),
                         "sort_table": (absent, 1, out), "split_numbers": (absent, out, 2)}
            done = subprocess.run(
                [program(name), *map(str, arguments.get(name, (absent, out)))],
                stderr=subprocess.PIPE, check=False)
            self.assertEqual(done.returncode, 1)
            self.assertIn(b"absent", done.stderr)
            self.assertFalse(out.exists())

    def test_every_recipe_is_run(self):
        source = pathlib.Path(__file__).read_text(encoding="utf-8")
        shown = shown_sources()
        self.assertGreaterEqual(len(shown), 12)
        for name in shown:
            self.assertTrue((ROOT / "examples" / f"{name}.cc").is_file(), name)
            self.assertIn(f'self.output("{pathlib.Path(name).name}"', source)
        for file in (ROOT / "examples" / "cookbook").glob("*.cc"):
            self.assertIn(f"cookbook/{file.stem}", shown, "a recipe that the page does not show")


# Python has no zstd of its own; the library does.
ZSTD_BACK = """
import ctypes, sys
zstd = ctypes.CDLL("libzstd.so.1")
zstd.ZSTD_getFrameContentSize.restype = ctypes.c_ulonglong
zstd.ZSTD_decompress.restype = ctypes.c_size_t
data = open(sys.argv[1], "rb").read()
size = zstd.ZSTD_getFrameContentSize(data, ctypes.c_size_t(len(data)))
back = ctypes.create_string_buffer(max(size, 1))
got = zstd.ZSTD_decompress(back, ctypes.c_size_t(size), data, ctypes.c_size_t(len(data)))
assert got == size, got
sys.stdout.buffer.write(back.raw[:size])
"""


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
