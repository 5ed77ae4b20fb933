#!/usr/bin/env python3
"""Sorts and checks CSV, and compares with what Python's csv module makes of the same files.

  csv_test.py PROGRAM [--sanitized]
"""

import csv
import json
import random

from folder_case import PROGRAMS, SANITIZED, SEED, FolderCase, main

PROGRAM, = PROGRAMS
MARK = b"\xef\xbb\xbf"

csv.field_size_limit(2**31 - 1)


def rows_of(data, separator):
    """The rows, each with its bytes; in those the newline at the end is left out, and a quote that
    is never closed is closed."""
    lines = [line.decode("latin-1") for line in data.removeprefix(MARK).split(b"\n")]
    lines = [line + "\n" for line in lines[:-1]] + ([lines[-1]] if lines[-1] else [])
    reader = csv.reader(lines, delimiter=separator)
    rows, taken = [], 0
    for values in reader:
        raw = "".join(lines[taken:reader.line_num])
        taken = reader.line_num
        if taken == len(lines) and is_open(raw, separator):
            raw += '"'
        else:
            raw = raw.removesuffix("\n")
        rows.append((values, raw))
    return rows


def is_open(raw, separator):
    """Whether it takes a quote to end the record."""
    more = [raw, "\n"] if raw.endswith("\n") else [raw + "\n", "\n"]
    return len(list(csv.reader(more, delimiter=separator))) == 1


class Csv(FolderCase):
    def vortex(self, *arguments, code=0, stdin=b""):
        return self.run_verb(PROGRAM, *arguments, code=code, stdin=stdin)

    def sort(self, *arguments, stdin=b""):
        return self.vortex("sort", "--csv", *arguments, "-o", "-", stdin=stdin).stdout

    def refusal(self, *arguments):
        return self.refusal_of(PROGRAM, *arguments)


class AsPythonReadsIt(Csv):
    """Random tables: quotes anywhere, newlines in values, CR LF, ragged rows, a byte-order mark."""

    def table(self, rng, separator, pieces, long_values=False):
        end = rng.choice(["\n", "\r\n"])
        tokens = ['"', '"', '""', separator, separator, "a", "b", "7", " ", end, end, "\n", "é"]
        text = []
        for _ in range(pieces):
            if rng.random() < 0.3:  # a value as a writer of CSV writes it
                value = "".join(rng.choice(tokens) for _ in range(rng.randrange(6)))
                quoted = '"' + value.replace('"', '""') + '"'
                text.append(quoted + rng.choice([separator, separator, end]))
            elif long_values and rng.random() < 0.02:
                text.append('"' + rng.choice(["long\n", 'q""q', "x,"]) * rng.randrange(8000) + '"')
                text.append(rng.choice([separator, end]))
            else:
                text.append(rng.choice(tokens))
        if long_values:
            # One quote that stays open takes the rest: close it, and go on, now and then.
            step = 60
            text = ["".join(text[i:i + step]) + rng.choice([end, '"' + end, end * 2])
                    for i in range(0, len(text), step)]
        mark = MARK if rng.random() < 0.3 else b""
        return mark + "".join(text).encode()

    def expected(self, files, separator, column, reverse, stable, unique):
        rows = [row for data in files for row in rows_of(data, separator)]

        def key(row):
            return row[0][column] if column < len(row[0]) else ""

        if not stable and not unique:
            rows.sort(key=lambda row: row[1])
        rows.sort(key=key, reverse=reverse)
        if unique:
            rows = [row for i, row in enumerate(rows) if i == 0 or key(row) != key(rows[i - 1])]
        mark = MARK if any(data.startswith(MARK) for data in files) else b""
        return mark + "".join(raw + "\n" for _, raw in rows).encode("latin-1"), rows

    def compare(self, rng, files, separator, *more):
        for i, data in enumerate(files):
            self.put(f"in{i}", data)
        names = [f"in{i}" for i in range(len(files))]
        column = rng.randrange(3)
        for options in ([], ["-s"], ["-u"], ["-s", "-r"]):
            reverse, unique = "-r" in options, "-u" in options
            out, rows = self.expected(files, separator, column, reverse, "-s" in options, unique)
            key = f"{column + 1}{':r' if reverse else ''}"
            arguments = ["-t", separator, "-k", key, *(o for o in options if o != "-r"), *more]
            sorted_ = self.sort(*arguments, *names)
            self.assertEqual(sorted_, out, (files, arguments))
            # Who reads the output gets the same rows.
            self.assertEqual([values for values, _ in rows_of(sorted_, separator)],
                             [values for values, _ in rows])
            self.put("sorted", sorted_)
            check = [o for o in options if o in ("-s", "-u")]
            self.vortex("check", "--csv", "-t", separator, "-k", key, *check, "sorted")

    def test_small_tables(self):
        rng = random.Random(SEED)
        for _ in range(5 if SANITIZED else 15):
            separator = rng.choice([",", ";", "\t"])
            files = [self.table(rng, separator, rng.randrange(40)) for _ in range(rng.choice([1, 1, 3]))]
            self.compare(rng, files, separator)

    def test_records_across_blocks(self):
        rng = random.Random(SEED)
        for separator in ("," if SANITIZED else ",;"):
            files = [self.table(rng, separator, 5000, long_values=True) for _ in range(2)]
            self.compare(rng, files, separator, "-S", "1M", "-T", ".")
            report = self.vortex("sort", "--csv", "-t", separator, "-S", "1M", "-T", ".", "in0", "in1",
                                 "-o", "out", "--json").stdout
            self.assertGreater(json.loads(report)["runs"], 1)

    def test_a_merge(self):
        rng = random.Random(SEED)
        for _ in range(5 if SANITIZED else 15):
            files = []
            for _ in range(3):
                data = self.table(rng, ",", rng.randrange(60))
                files.append(self.expected([data], ",", 1, False, False, False)[0])
            for i, data in enumerate(files):
                self.put(f"in{i}", data)
            out, _ = self.expected(files, ",", 1, False, False, False)
            self.assertEqual(self.sort("-m", "-k", "2", "in0", "in1", "in2"), out, files)


class InvalidQuotes(Csv):
    def report(self, data, *arguments):
        self.put("in", data)
        done = self.vortex("sort", "--csv", "in", *arguments, "-o", "out", "--json", "-v")
        return json.loads(done.stdout), (self.folder / "out").read_bytes(), done.stderr.decode()

    def test_they_are_kept_and_counted(self):
        data = b'3,pen\n3,12" pipe\n1,"el"bow\n2,14" p"ip"e\n0,"a ""tee"""\n'
        report, out, told = self.report(data, "-k", "1:n", "-s")
        self.assertEqual(out, b'0,"a ""tee"""\n1,"el"bow\n2,14" p"ip"e\n3,pen\n3,12" pipe\n')
        self.assertEqual(report["invalid_records"], 3)
        self.assertEqual(report["records_in"], 5)
        self.assertRegex(told, r"invalid +3 records")
        report, _, told = self.report(b'a,"b"\r\n"c\n",""\r\n', "--strict")
        self.assertEqual(report["invalid_records"], 0)
        self.assertNotIn("invalid", told)

    def test_one_that_is_never_closed(self):
        report, out, told = self.report(b'b,1\na,"2\nc,3\n')
        self.assertEqual(out, b'a,"2\nc,3\n"\nb,1\n')
        self.assertEqual((report["records_in"], report["invalid_records"]), (2, 1))
        self.assertIn("warning: the last record of an input never closes a quote", told)
        self.put("sorted", out)
        self.assertEqual(self.sort("--strict", "sorted"), out)
        # Neither is its tail lost where the file ends inside a doubled quote, or at a border.
        for tail in (b'"', b'"a""', b'"' + b"x" * 300_000, b'"' + b'""' * 150_000, b'x,"\r\n'):
            _, out, _ = self.report(b"z\n" + tail, "-S", "2M")
            self.assertEqual(out, tail + b'"\nz\n')

    def test_strict_names_the_place(self):
        self.put("stray", b'a,b\n"two\nlines",c\n1,12" pipe\n')
        self.put("behind", b'a\n"b"c\n')
        self.put("open", b'a\nb,"c\nd\n')
        self.put("far", b'"1\n2",3\n' * 40_000 + b'"x\n\n",y"\n')
        self.put("marked", MARK + b'a"\n')
        for name, place, words in (("stray", "line 4, column 5", "put the value into quotes"),
                                   ("behind", "line 2, column 4", "double a quote"),
                                   ("open", "line 2, column 3", "close it"),
                                   ("far", "line 80003, column 4", "put the value into quotes"),
                                   ("marked", "line 1, column 2", "put the value into quotes")):
            for arguments in (["sort", "--csv", "--strict", name, "-o", "out"],
                              ["sort", "--csv", "--strict", "-m", name, "-o", "out"],
                              ["check", "--csv", "--strict", name, "-s", "-k9"]):
                told = self.refusal(*arguments)
                self.assertIn(f"'{name}', {place}: ", told)
                self.assertIn(words, told)
            self.assertFalse((self.folder / "out").exists())
        self.assertIn("--csv", self.refusal("sort", "--lines", "--strict", "open", "-o", "out"))
        self.assertIn("--csv", self.refusal("sort", "--strict", "open", "-o", "out"))

    def test_a_record_that_is_too_long_may_have_an_open_quote(self):
        self.put("in", b'a\n"' + b"b\n" * 2_000_000)
        told = self.refusal("sort", "--csv", "-S", "1M", "in", "-o", "out")
        self.assertIn("record 2 of 'in', at offset 2, is longer than", told)
        self.assertIn("close its quote", told)


class ByteOrderMark(Csv):
    def test_it_is_no_part_of_the_first_name_and_stays_first(self):
        self.put("in", MARK + b'"the name",age\nb,2\na,10\n')
        self.put("more", MARK + b'"the name",age\nc,1\n')
        self.put("plain", b'"the name",age\nd,3\n')
        head = MARK + b'"the name",age\n'
        for key in ("the name", "1"):
            self.assertEqual(self.sort("--header", 1, "-k", key, "in"), head + b"a,10\nb,2\n")
        self.assertEqual(self.sort("--header", 1, "-k", "age:n", "in", "more", "plain"),
                         head + b"c,1\nb,2\nd,3\na,10\n")
        self.assertEqual(self.sort("--header", 1, "-k", "age:n", "plain", "more"),
                         head + b"c,1\nd,3\n")
        self.put("in", MARK + b'"the name",age\nb,2\nd,10\n')
        self.assertEqual(self.sort("-m", "--header", 1, "-k", "age:n", "more", "in", "plain"),
                         head + b"c,1\nb,2\nd,3\nd,10\n")
        self.assertEqual(self.sort("--header", 1, "-k", "2:n", "-",
                                   stdin=(self.folder / "in").read_bytes()), head + b"b,2\nd,10\n")
        self.vortex("check", "--csv", "--header", 1, "-k", "the name", "in")

    def test_files_without_a_head(self):
        self.put("in", MARK + b'b\n')
        self.put("more", MARK + b'a\n')
        self.put("only", MARK)
        self.assertEqual(self.sort("in", "more"), MARK + b"a\nb\n")
        self.assertEqual(self.sort("-m", "in", "more"), MARK + b"a\nb\n")
        self.assertEqual(self.sort("only"), MARK)
        self.assertEqual(self.vortex("check", "--csv", "only").stderr, b"")
        # Lines are bytes, as in sort(1).
        self.put("lines", MARK + b"b\na\n")
        self.assertEqual(self.vortex("sort", "--lines", "lines", "-o", "-").stdout,
                         b"a\n" + MARK + b"b\n")

    def test_messages_do_not_show_it(self):
        self.put("in", MARK + b"name,age\n")
        told = self.refusal("sort", "--csv", "--header", 1, "-k", "price", "in", "-o", "-")
        self.assertEqual(told, "no column is called 'price'; the head is: name,age")


class Messages(Csv):
    def test_they_say_what_to_write(self):
        self.put("in", b"name,price,unit price\nb,2,1\n")
        self.put("empty", b"")
        self.put("marked", MARK)
        self.put("utf16", "name,price\n".encode("utf-16"))
        for arguments, text in (
                (["-k", "2,2n"], "-k 2:n"),
                (["-k", "2,2"], "-k 2"),
                (["-k", "2n,2"], "-k 2:n"),
                (["-k", "2nr"], "-k 2:nr"),
                (["--header", 1, "-k", "2,2n"], "-k 2:n"),
                (["--header", 1, "-k", "price,name"], "repeat the option, -k price -k name"),
                (["--header", 1, "-k", "price:n,name:r"],
                 "repeat the option, -k price:n -k name:r"),
                (["--header", 1, "-k", "unit price,1"], "-k 'unit price' -k 1"),
                (["-k", "1,2"], "repeat the option, -k 1 -k 2"),
                (["-k", "1", "-t", "\\t"], "write a tab as -t $'\\t'"),
                (["-k", "1", "-t", '"'], "-t ';'")):
            self.assertIn(text, self.refusal("sort", "--csv", *arguments, "in", "-o", "-"), arguments)
        for name in ("empty", "marked"):
            told = self.refusal("sort", "--csv", "--header", 1, "-k", "price", name, "-o", "-")
            self.assertEqual(told, f"'{name}' is empty and has no names of columns: write the names "
                                   "into its first line, or give the numbers of the columns")
        told = self.refusal("sort", "--csv", "--header", 1, "-k", "price", "utf16", "-o", "-")
        self.assertIn("iconv -f UTF-16 -t UTF-8 'utf16'", told)

    def test_a_column_may_be_called_like_a_key(self):
        self.put("in", b'"2,2n","a,b"\n2,1\n1,2\n')
        self.assertEqual(self.sort("--header", 1, "-k", "2,2n", "in"),
                         b'"2,2n","a,b"\n1,2\n2,1\n')
        self.assertEqual(self.sort("--header", 1, "-k", "a,b:r", "in"),
                         b'"2,2n","a,b"\n1,2\n2,1\n')


class Check(Csv):
    def test_order(self):
        self.put("good", b'name,price\n"a\nb",2\nc,10\n')
        self.put("bad", b'name,price\nc,10\n"a\nb",2\nd,1\n')
        done = self.vortex("check", "--csv", "--header", 1, "-k", "price:n", "good")
        self.assertIn(b"records    2\n", done.stdout)
        self.assertIn(b"sorted     yes\n", done.stdout)
        self.assertEqual(done.stderr, b"")
        done = self.vortex("check", "--csv", "--header", 1, "-k", "price:n", "good", "bad", code=1)
        self.assertIn(b"sorted     no\n", done.stdout)
        self.assertEqual(done.stderr.decode(),
                         "vortex check: not sorted: record 3 of 'bad' (byte 16) belongs before the "
                         "record before it: \"a\\nb\",2\n")
        self.vortex("check", "--csv", "--header", 1, "-k", "price:nr", "bad")
        self.vortex("check", "--csv", "--header", 1, "-k", "price:n", "-r", "good", code=0)
        report = json.loads(self.vortex("check", "--csv", "--header", 1, "-k", "price:n", "bad",
                                        "--json", code=1).stdout)
        self.assertEqual((report["sorted"], report["disorder"]),
                         (False, {"input": "bad", "record": 3, "offset": 16}))

    def test_lines(self):
        self.put("in", b"b 1\na 2\na 10\n")
        self.vortex("check", "--lines", "-k2,2n", "in")
        self.vortex("check", "--lines", "in", code=1)
        self.vortex("check", "--lines", "-s", "-k1,1r", "in")
        self.vortex("check", "--lines", "-u", "-k1,1r", "in", code=1)
        self.vortex("check", "--lines", "-k2,2n", "-", stdin=b"b 1\na 2\n")
        self.put("zeros", b"a\0b\0")
        self.vortex("check", "--lines", "-z", "zeros")

    def test_invalid_quotes_are_counted(self):
        self.put("in", b'a"\nb\nc,"\n')
        done = self.vortex("check", "--csv", "in")
        self.assertIn(b"invalid    2 records", done.stdout)
        self.assertIn(b"never closes a quote", done.stderr)

    def test_refusals(self):
        self.put("in", b"a\n")
        for arguments, text in ((["--lines", "--record", 4, "in"], "--record"),
                                (["--csv", "--form", "u32", "in"], "--form"),
                                (["--lines", "--combine", "in"], "--combine"),
                                (["--csv", "-", "-"], "once"),
                                (["-n", "in"], "--lines or --csv"),
                                (["--csv", "-k", "1,1n", "in"], "-k 1:n"),
                                (["--csv", "missing"], "No such file")):
            self.assertIn(text, self.refusal("check", *arguments))
        self.assertIn(b"vortex-sort -c", self.vortex("check", "--help").stdout)


if __name__ == "__main__":
    main()
