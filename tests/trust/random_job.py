"""A random whole job of the programs or the library, and what must hold of its files, whenever it ends."""

import array
import bisect
import random
import signal

UNIT = 1 << 16  # of striped files, as in soak_library.cc
PYTHON = """
import sys, vortex
form, source, output, memory, threads, *folders = sys.argv[1:]
vortex.sort_file(source, output, **({"record": "lines"} if form == "lines" else {"dtype": "<u8"}),
                 memory=int(memory), threads=int(threads), folders=folders)
"""


class Wrong(Exception):
    pass


def expect(condition, what):
    if not condition:
        raise Wrong(what)


def random_lines(data, count):
    return b"".join(b"%d %d\n" % (data.randrange(10**6), data.randrange(10**data.randrange(1, 20)))
                    for _ in range(count))


def sorted_lines(text, option=()):
    """Of a text whose last line need not be whole."""
    lines = [line + b"\n" for line in text.split(b"\n")]
    if lines[-1] == b"\n":
        lines.pop()
    return b"".join(sorted(set(lines) if "-u" in option else lines, reverse="-r" in option))


def sorted_numbers(data):
    return array.array("Q", sorted(array.array("Q", data))).tobytes()


class Job:
    """A command, what it reads, and what it writes: files, of each of which `expected` has the bytes, or a pipe."""

    KINDS = ["lines", "records", "merge", "gen", "library_records", "library_lines", "split", "sampled_split",
             "stripes", "piped"]

    def __init__(self, chance, folder, programs):
        self.folder = folder
        self.vortex, self.sort, self.library, *self.python = programs
        self.runs = [folder / f"runs{i}" for i in range(1 + chance.below(3))]
        self.inputs = {}
        self.given = None  # so many bytes of the first input come by a pipe, and then its end
        self.taken = None  # so many bytes of what comes by a pipe are read, and then nobody reads it
        self.got = b""  # these
        self.check_outputs = lambda data: None  # raises Wrong
        kind = chance.choice([*self.KINDS, "with_python"] if self.python else self.KINDS)
        where = chance.choice(["new", "old"] if kind in ("gen", "piped") else ["new", "old", "input"])
        self.base = "in0" if where == "input" else "out"
        # What is behind the base in the name of each output, and what is in it; None for what the first whole job has.
        outputs = getattr(self, kind)(chance)
        self.expected = {self.base + suffix: data for suffix, data in outputs.items()}
        self.old = {name: self.inputs.get(name, None if where == "new" else b"old") for name in self.expected}
        self.command = [str(folder / self.base) if word == "OUT" else str(word) for word in self.command]
        self.syncs = kind != "gen"
        self.what = f"{kind}, output {where}: {' '.join(word for word in self.command if word != PYTHON)}"
        if self.given is not None:
            self.what += f", from a pipe with {self.given} bytes of in0"
        if self.taken is not None:
            self.what += f", to a pipe of which {self.taken} bytes are read"

    def add(self, data, first_suffix=""):
        """An input; the first one may be among the outputs, and has such a name then."""
        name = f"in{len(self.inputs)}{'' if self.inputs else first_suffix}"
        self.inputs[name] = data
        return self.folder / name

    def resources(self, chance):
        return ["-S", chance.choice(["16M", "2M", "1M"]), f"--parallel={1 + chance.below(3)}",
                *(word for run_folder in self.runs for word in ("-T", run_folder))]

    def lines(self, chance):
        texts = [random_lines(chance.data(), chance.choice([10, 1000, 60_000, 200_000]))
                 for _ in range(1 + chance.below(2))]
        option = chance.choice([[], ["-r"], ["-u"]])
        self.command = [self.sort, *option, *(self.add(text) for text in texts), "-o", "OUT",
                        *self.resources(chance)]
        return {"": sorted_lines(b"".join(texts), option)}

    def merge(self, chance):
        texts = [sorted_lines(random_lines(chance.data(), chance.choice([10, 50_000])))
                 for _ in range(2 + chance.below(4))]
        self.command = [self.sort, "-m", *(self.add(text) for text in texts), "-o", "OUT", *self.resources(chance)]
        return {"": sorted_lines(b"".join(texts))}

    @staticmethod
    def random_numbers(chance):
        return chance.data().randbytes(8 * chance.choice([10, 20_000, 300_000, 1_000_000]))

    def records(self, chance):
        data = self.random_numbers(chance)
        self.command = [self.vortex, "sort", "--form", "u64", self.add(data), "-o", "OUT", *self.resources(chance)]
        return {"": sorted_numbers(data)}

    def gen(self, chance):
        count = chance.choice([100, 100_000, 1_000_000])
        self.command = [self.vortex, "gen", "--form", "u64", "-n", count, "--seed", chance.below(1000), "OUT"]
        return {"": None}

    def of_library(self, chance, kind, data, first_suffix=""):
        self.command = [self.library, kind, self.add(data, first_suffix), "OUT",
                        chance.choice([16 << 20, 3 << 20]), 1 + chance.below(3), *self.runs]

    def library_records(self, chance):
        kind = chance.choice(["copy", "records", "sorter"])
        data = self.random_numbers(chance)
        self.of_library(chance, kind, data)
        return {"": data if kind == "copy" else sorted_numbers(data)}

    def library_lines(self, chance):
        kind = chance.choice(["lines", "line_sorter"])
        text = random_lines(chance.data(), chance.choice([10, 1000, 60_000, 200_000]))
        self.of_library(chance, kind, text)
        return {"": sorted_lines(text)}

    def split_command(self, texts, *how):
        return [self.vortex, "split", "--form", "u64", *(self.add(text, ".00000") for text in texts), *how, "-o", "OUT"]

    def split(self, chance):
        """Each splitter begins a part."""
        texts = [self.random_numbers(chance) for _ in range(1 + chance.below(2))]
        numbers = array.array("Q", b"".join(texts))
        splitters = array.array("Q", sorted(chance.data().sample(numbers, 1 + chance.below(9))))
        parts = [array.array("Q") for _ in range(len(splitters) + 1)]
        for number in numbers:
            parts[bisect.bisect_right(splitters, number)].append(number)
        self.command = [*self.split_command(texts), "--splitters", self.add(splitters.tobytes()),
                        "-S", chance.choice(["16M", "2M", "1M"])]
        return {f".{i:05}": part.tobytes() for i, part in enumerate(parts)}

    def sampled_split(self, chance):
        """Of numbers most of which may be equal, and divided then. The first whole job says where the borders are."""
        numbers = array.array("Q", self.random_numbers(chance))
        if chance.below(2) == 1:
            numbers = array.array("Q", (number if number % 4 == 0 else 1 << 60 for number in numbers))
        texts = [numbers[:len(numbers) // 3].tobytes(), numbers[len(numbers) // 3:].tobytes()]
        parts = 1 + chance.below(9)
        divides = chance.choice([[], ["--divide-equal"]])
        self.command = [*self.split_command(texts), "-n", parts, *divides, "--seed", chance.below(1000),
                        "-S", chance.choice(["16M", "2M", "1M"])]

        def check_outputs(data):
            made = [array.array("Q", part) for part in data]
            expect(sorted(numbers) == sorted(number for part in made for number in part), "the parts are no division")
            ends = [(min(part), max(part)) for part in made if part]
            expect(all(last < first or (divides and last == first) for (_, last), (first, _) in zip(ends, ends[1:])),
                   "a part does not end where the next begins")
            for part in made:
                left = iter(numbers)
                expect(all(number in left for number in part), "a part is in another order than the inputs")

        self.check_outputs = check_outputs
        return {f".{i:05}": None for i in range(parts)}

    def stripes(self, chance):
        """Their units lie in one part after the other. There is one part more than threads."""
        data = self.random_numbers(chance)
        self.of_library(chance, "stripes", data, ".00000")
        parts = int(self.command[5]) + 1
        return {f".{i:05}": b"".join(data[at:at + UNIT] for at in range(i * UNIT, len(data), parts * UNIT))
                for i in range(parts)}

    def piped(self, chance):
        """From a pipe whose writer may be killed, or to one whose reader may go, or both."""
        where = 1 + chance.below(3)
        form = chance.choice(["lines", "numbers"])
        data = (random_lines(chance.data(), chance.choice([10, 1000, 60_000, 200_000])) if form == "lines" else
                self.random_numbers(chance))
        source = self.add(data)
        if where & 1:
            self.given = len(data) if chance.below(2) == 0 else int(chance.part() * len(data))
            if form == "numbers":
                self.given -= self.given % 8
            source = "-"
        output = ["-o", "OUT"] if not where & 2 else [] if form == "lines" else ["-o", "-"]
        self.command = [*([self.sort] if form == "lines" else [self.vortex, "sort", "--form", "u64"]), source, *output,
                        *self.resources(chance)]
        wanted = (sorted_lines if form == "lines" else sorted_numbers)(data[:self.given])
        if not where & 2:
            return {"": wanted}
        self.wanted = wanted
        self.taken = len(wanted) if chance.below(2) == 0 else int(chance.part() * len(wanted))
        return {}

    def with_python(self, chance):
        form = chance.choice(["lines", "numbers"])
        data = (random_lines(chance.data(), chance.choice([10, 60_000, 200_000])) if form == "lines" else
                self.random_numbers(chance))
        self.command = [*self.python, "-c", PYTHON, form, self.add(data), "OUT", chance.choice([16 << 20, 3 << 20]),
                        1 + chance.below(3), *self.runs]
        return {"": (sorted_lines if form == "lines" else sorted_numbers)(data)}

    def prepare(self):
        for folder in self.runs:
            folder.mkdir(exist_ok=True)
        # A crash was looked at elsewhere, and who was killed then has left this here.
        for path in self.folder.glob(".*.part"):
            path.unlink()
        for name, data in {**self.inputs, **self.old}.items():
            path = self.folder / name
            if data is None:
                path.unlink(missing_ok=True)
            elif not path.exists() or path.read_bytes() != data:
                path.write_bytes(data)

    def ended_well(self, status):
        """Whether all is done; who writes where nobody reads has done so too."""
        return status == 0 or (self.taken is not None and self.taken < len(self.wanted) and status == -signal.SIGPIPE)

    def check(self, whole, folder=None):
        """What must hold in its folder, or in what a crash has left of it."""
        folder = folder or self.folder
        made = {name: (folder / name).read_bytes() if (folder / name).exists() else None for name in self.expected}
        if whole and None in self.expected.values():
            expect(None not in made.values(), "an output is not there")
            self.check_outputs(made.values())
            self.expected = made
        if self.taken is not None:
            expect(self.got == self.wanted[:len(self.got)], f"{len(self.got)} bytes by a pipe are not right")
            expect(not whole or len(self.got) == self.taken, f"{len(self.got)} bytes came by a pipe")
        still_old = None
        for name, data in made.items():
            size = None if data is None else len(data)
            expect(data == self.expected[name] or (not whole and data == self.old[name]),
                   f"the output {name} has {size} bytes and is not {'right' if whole else 'old or new'}")
            if data != self.expected[name]:
                still_old = name
            elif data != self.old[name]:
                # They get their names in their order.
                expect(still_old is None, f"the output {name} is new, and {still_old} is old")
        for name, data in self.inputs.items():
            expect(name in made or (folder / name).read_bytes() == data, f"{name} has changed")
        known = {*self.inputs, *made, "lost+found", *(run_folder.name for run_folder in self.runs)}
        left = {path.name for path in folder.iterdir()} - known
        left |= {path.name for run_folder in self.runs for path in (folder / run_folder.name).iterdir()}
        left -= set() if whole else self.waiting(folder)
        expect(not left, f"left behind: {left}")

    def waiting(self, folder):
        """Between two calls a new file that takes the place of another has a name of its own, and is whole."""
        names = set()
        for name, data in self.expected.items():
            for path in [*folder.glob(f".{name}.*.part")][:self.old[name] is not None]:
                expect(data in (None, path.read_bytes()), f"{path.name} is not whole")
                names.add(path.name)
                path.unlink()
        return names
