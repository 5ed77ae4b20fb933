"""Sorts beyond one machine, on three nodes of Ray in this one, beside numpy."""

import contextlib
import errno
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile

import numpy as np
import pytest

ray = pytest.importorskip("ray", reason="ray is not installed")
fsspec = pytest.importorskip("fsspec", reason="fsspec is not installed")

from ray_nodes import VARIABLES, Nodes  # noqa: E402

import vortex  # noqa: E402
import vortex.ray  # noqa: E402
from vortex import _ray_forms, _ray_plan, _ray_program, _ray_sort, _ray_started, _ray_tasks  # noqa: E402
from vortex._ray_forms import LineForm, Piece, RecordForm  # noqa: E402
from vortex._ray_tasks import Job, part_name  # noqa: E402
from vortex._storage import Storage  # noqa: E402

LEAST = 32 << 20
# A file system that ends the process that reads, once, where a file `end` says so.
FAULTY = """
import os, signal
from fsspec.implementations.local import LocalFileSystem

class FaultyFileSystem(LocalFileSystem):
    protocol = "faulty"

    @classmethod
    def _strip_protocol(cls, path):
        return path.removeprefix("faulty://")

    def cat_file(self, path, start=None, end=None, **kwargs):
        try:
            os.unlink(os.path.join(os.path.dirname(path), "end"))
        except FileNotFoundError:
            return super().cat_file(path, start, end, **kwargs)
        os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture(scope="module")
def machines(tmp_path_factory):
    """One cluster for all tests; who removes a node adds another one."""
    folder = tmp_path_factory.mktemp("ray")
    (folder / "faulty.py").write_text(FAULTY)
    about = folder / "faulty-1.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: faulty\nVersion: 1\n")
    (about / "entry_points.txt").write_text("[fsspec.specs]\nfaulty = faulty.FaultyFileSystem\n")
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {
            **VARIABLES,
            "HOME": str(folder),
            "PYTHONPATH": os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])]),
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": "any",
            "AWS_SECRET_ACCESS_KEY": "any",
        }.items():
            patch.setenv(name, value)
        patch.syspath_prepend(folder)
        from faulty import FaultyFileSystem

        fsspec.register_implementation("faulty", FaultyFileSystem)
        machines = Nodes(3, 100 << 20, folder)
        session = machines.cluster.head_node.get_session_dir_path()
        try:
            ray.init(address=machines.cluster.address, log_to_driver=False)
            yield machines
        finally:
            ray.shutdown()
            machines.cluster.shutdown()
            shutil.rmtree(session, ignore_errors=True)  # Ray leaves its logs


class Stopped(Exception):
    pass


@pytest.fixture(params=["stores", "folders"])
def way(request, monkeypatch):
    """Whether what maps make fits into the stores at a time, or goes through folders in several waves."""
    monkeypatch.setattr(_ray_plan, "_LEAST_PART", 100_000)
    if request.param == "folders":
        monkeypatch.setattr(_ray_plan, "_IN_STORE", 0.004)
    return request.param


def files_of(records, folder, cuts, rng):
    """The records as files, some of them empty."""
    folder.mkdir(exist_ok=True)
    names = []
    for number, some in enumerate(np.split(records, np.sort(rng.integers(0, len(records) + 1, cuts)))):
        names.append(str(folder / f"{number:04}"))
        some.tofile(names[-1])
    return names


def output_of(folder, dtype):
    return np.concatenate([np.fromfile(path, dtype) for path in sorted(folder.glob("part-*"))])


def names_in(folder):
    return sorted(path.name for path in folder.iterdir())


def by_key(records):
    """Records of 100 bytes by their first ten."""
    key = records[:, :10].astype(np.uint64)
    high = sum(key[:, at] << np.uint64(8 * (7 - at)) for at in range(8))
    return records[np.lexsort((key[:, 9], key[:, 8], high))]


ITEM = np.dtype([("place", "u4"), ("key", "f8"), ("other", "S5")])


def random_records(kind, rng, count):
    """Records, and the arguments of a sort with what it has to give."""
    if kind == "100 bytes":
        records = rng.integers(0, 256, (count, 100), np.uint8)
        records[: count // 2, :9] = 0
        return records, {"record": 100, "key": "0:10"}, by_key(records)
    if kind == "numbers":
        records = rng.integers(-(1 << 62), 1 << 62, count)
        return records, {"dtype": "i8", "descending": True}, np.sort(records)[::-1]
    records = np.zeros(count, ITEM)
    records["key"], records["place"] = rng.integers(-3, 4, count) / 2, np.arange(count)
    return records, {"dtype": ITEM, "key": "key"}, records[np.argsort(records["key"], kind="stable")]


@pytest.mark.parametrize("kind", ["100 bytes", "numbers", "items"])
def test_sorts_as_one_process(machines, tmp_path, rng, way, kind):
    records, how, expected = random_records(kind, rng, 20_000 if kind == "100 bytes" else 100_000)
    names = files_of(records, tmp_path / "in", 5, rng)
    folders = [tmp_path / "a", tmp_path / "b"]
    stages = []
    report = vortex.ray.sort(
        names,
        tmp_path / "out",
        **how,
        partitions=7,
        memory=LEAST,
        folders=folders,
        progress=lambda stage, done, total: stages.append((stage, done, total)),
    )
    assert output_of(tmp_path / "out", expected.dtype).tobytes() == expected.tobytes()
    assert report.records == len(records)
    assert (report.waves > 1) == (way == "folders")
    # The model divides records as the sort does.
    plan = vortex.ray.estimate(
        records.nbytes,
        nodes=3,
        processors=1,
        store=100 << 20,
        memory=LEAST,
        record=records.nbytes // len(records),
        partitions=7,
    ).plan
    assert (plan.parts, plan.partitions, plan.waves) == (report.parts, report.partitions, report.waves)
    assert [stage for stage, *_ in dict.fromkeys((stage,) for stage, *_ in stages)] == [
        "sampling",
        "mapping",
        "writing",
    ]
    # Equal keys are divided as well.
    sizes = [path.stat().st_size for path in sorted((tmp_path / "out").glob("part-*"))]
    assert len(sizes) == 7
    assert max(sizes) < 2 * sum(sizes) / 7
    assert names_in(tmp_path / "out") == ["manifest.json", *(f"part-{at:05}" for at in range(7))]
    assert all(not folder.exists() or names_in(folder) == [] for folder in folders)
    assert vortex.ray.check(tmp_path / "out/manifest.json") is None
    with pytest.raises(FileExistsError):
        vortex.ray.sort(names, tmp_path / "out", **how)


@pytest.mark.parametrize(
    "how", [{}, {"key": "2,2n", "stable": True}, {"key": ["2,2", "1,1r"], "separator": ":"}], ids=str
)
def test_lines(machines, tmp_path, rng, way, how):
    """Beside GNU sort: empty lines, long ones, equal keys, and files whose last line has no newline."""
    words = ["", "a", "b:a", "a 1", "b 1", "c 2", "a:b 10", "ü:ß", "x" * 9000 + " 3"]
    lines = [words[at] + (f" {more}" if more % 3 else "") for at, more in rng.integers(0, [len(words), 50], (4000, 2))]
    names = []
    (tmp_path / "in").mkdir()
    for number, some in enumerate(np.array_split(np.array(lines, object), 6)):
        names.append(str(tmp_path / f"in/{number}"))
        with open(names[-1], "w") as file:
            file.write("\n".join(some) + "\n" * (number % 2))
    keys = [how["key"]] if isinstance(how.get("key"), str) else how.get("key", [])
    options = [
        *(f"-k{key}" for key in keys),
        *(["-t:"] if "separator" in how else []),
        *(["-s"] if "stable" in how else []),
    ]
    sort = ["sort", *options, *names]
    expected = subprocess.run(sort, env={"LC_ALL": "C", "PATH": os.environ["PATH"]}, stdout=subprocess.PIPE, check=True)
    report = vortex.ray.sort(
        names, tmp_path / "out", record="lines", **how, partitions=7, memory=LEAST, folders=tmp_path / "runs"
    )
    assert b"".join(path.read_bytes() for path in sorted((tmp_path / "out").glob("part-*"))) == expected.stdout
    assert report.records == expected.stdout.count(b"\n")
    assert (report.waves > 1) == (way == "folders")
    assert report.partitions == 7
    assert vortex.ray.check(tmp_path / "out/manifest.json") is None
    part = tmp_path / "out/part-00003"
    part.write_bytes(part.read_bytes().replace(b"x", b"y"))
    assert "part-00003" in vortex.ray.check(tmp_path / "out/manifest.json")


def test_lines_of_which_a_part_is_sampled(machines, tmp_path, rng, way, monkeypatch):
    """Borders that are no lines: each map puts what is equal to one on the same side."""
    monkeypatch.setattr(_ray_sort, "_SAMPLED", 1)
    monkeypatch.setattr(_ray_sort, "_LEAST_SAMPLE", 3)
    monkeypatch.setattr(_ray_plan, "_LEAST_PART", 1000)
    lines = sorted("".join(rng.choice(["a", "b"], rng.integers(1, 9)).tolist()) for _ in range(3000))
    names = []
    (tmp_path / "in").mkdir()
    for number, some in enumerate(np.array_split(rng.permutation(np.array(lines, object)), 3)):
        names.append(str(tmp_path / f"in/{number}"))
        pathlib.Path(names[-1]).write_text("".join(f"{line}\n" for line in some))
    vortex.ray.sort(names, tmp_path / "out", record="lines", partitions=7, memory=LEAST, folders=tmp_path / "runs")
    parts = sorted((tmp_path / "out").glob("part-*"))
    assert "".join(path.read_text() for path in parts).splitlines() == lines
    assert vortex.ray.check(tmp_path / "out/manifest.json") is None


@pytest.mark.parametrize("count", [0, 1])
def test_little(machines, tmp_path, rng, count):
    names = files_of(np.arange(count), tmp_path / "in", 2, rng)
    vortex.ray.sort(names, tmp_path / "out", dtype="i8", partitions=4)
    assert output_of(tmp_path / "out", np.int64).tolist() == list(range(count))
    assert vortex.ray.check(tmp_path / "out/manifest.json") is None


def test_many_small_files_and_one_key(machines, tmp_path, rng):
    records = np.zeros(5000, ITEM)
    records["place"] = np.arange(5000)
    names = files_of(records, tmp_path / "in", 999, rng)
    report = vortex.ray.sort(names, tmp_path / "out", dtype=ITEM, key="key", partitions=5)
    assert report.parts == 1
    np.testing.assert_array_equal(output_of(tmp_path / "out", ITEM), records)
    manifest = json.loads((tmp_path / "out/manifest.json").read_text())
    assert [one["records"] for one in manifest["inputs"]] == [os.path.getsize(name) // ITEM.itemsize for name in names]
    assert max(one["records"] for one in manifest["parts"]) < 2000


def test_a_partition_larger_than_memory(machines, tmp_path, rng, monkeypatch):
    monkeypatch.setattr(_ray_plan, "_IN_STORE", 0.2)
    numbers = rng.integers(0, 1 << 60, (LEAST + (8 << 20)) // 8)
    names = files_of(numbers, tmp_path / "in", 1, rng)
    report = vortex.ray.sort(
        names, tmp_path / "out", dtype="i8", partitions=1, memory=LEAST, folders=tmp_path / "runs"
    )
    assert report.waves > 1
    np.testing.assert_array_equal(np.fromfile(tmp_path / "out/part-00000", np.int64), np.sort(numbers))


def test_npy(machines, tmp_path, rng, monkeypatch):
    """By names in the working folder, which is no worker's."""
    monkeypatch.chdir(tmp_path)
    numbers = rng.random(1000)
    np.save(tmp_path / "a.npy", numbers[:300])
    np.save(tmp_path / "b.npy", numbers[300:])
    vortex.ray.sort(["a.npy", "b.npy"], "out")
    np.testing.assert_array_equal(output_of(tmp_path / "out", np.float64), np.sort(numbers))


def test_check(machines, tmp_path, rng):
    records, how, _ = random_records("100 bytes", rng, 3000)
    vortex.ray.sort(files_of(records, tmp_path / "in", 1, rng), tmp_path / "out", **how, partitions=3)
    manifest, part = tmp_path / "out/manifest.json", tmp_path / "out/part-00001"
    good, said = part.read_bytes(), manifest.read_text()
    wrong = bytearray(good)
    wrong[-1] ^= 1
    text = said.replace('"records": 3000', '"records": 3001')
    for content, complaint in [
        (wrong, "changed"),
        (good[:-100], "records"),
        (good[:-1], "99 bytes"),
        (good[-100:] + good[100:-100] + good[:100], "belongs before"),
        (None, "missing"),
    ]:
        part.unlink() if content is None else part.write_bytes(content)
        assert complaint in vortex.ray.check(manifest)
    part.write_bytes(good)
    manifest.write_text(text)
    assert "whole" in vortex.ray.check(manifest)
    # Parts that are whole, but have changed places.
    turned = json.loads(said)
    turned["parts"][0], turned["parts"][1] = turned["parts"][1], turned["parts"][0]
    manifest.write_text(json.dumps(turned))
    assert "part-00000 begins with a key" in vortex.ray.check(manifest)


@contextlib.contextmanager
def nothing_left(*folders):
    before = {folder: names_in(folder) if folder.exists() else None for folder in folders}
    yield
    assert {folder: names_in(folder) if folder.exists() else None for folder in folders} == before


@pytest.mark.parametrize("stage", ["sampling", "mapping", "writing"])
def test_a_lost_node(machines, tmp_path, rng, way, stage):
    """In the middle of a stage, when a task of it has ended."""
    records, how, expected = random_records("100 bytes", rng, 20_000)
    names = files_of(records, tmp_path / "in", 3, rng)
    removed = []

    def remove(now, done, total):
        if now == stage and done and not removed:
            removed.append(now)
            machines.remove_one()

    (tmp_path / "runs").mkdir()
    try:
        with nothing_left(tmp_path / "runs"):
            report = vortex.ray.sort(
                names, tmp_path / "out", **how, partitions=6, folders=tmp_path / "runs", memory=LEAST, progress=remove
            )
    finally:
        machines.nodes.append(machines.add())
    assert removed == [stage]
    assert output_of(tmp_path / "out", np.uint8).tobytes() == expected.tobytes()
    assert names_in(tmp_path / "out") == ["manifest.json", *(f"part-{at:05}" for at in range(6))]
    # A node, which makes two, may have written some of them before.
    possible = range(0, 7) if stage == "writing" else range(2, 7, 2)
    assert report.made_again in (possible if way == "folders" else (0,))


def test_a_killed_worker(machines, tmp_path, rng):
    records, how, expected = random_records("100 bytes", rng, 5000)
    names = files_of(records, tmp_path / "in", 3, rng)

    def kill(stage, done, total):
        if stage == "sampling" and done == total:
            (tmp_path / "in/end").touch()

    vortex.ray.sort([f"faulty://{name}" for name in names], tmp_path / "out", **how, memory=LEAST, progress=kill)
    assert not (tmp_path / "in/end").exists()
    assert output_of(tmp_path / "out", np.uint8).tobytes() == expected.tobytes()


def parent_of(process):
    return int(pathlib.Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])


def workers():
    """The processes of a sort's tasks, which this one's nodes have started."""
    for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if path.read_bytes().startswith((b"ray::vortex map", b"ray::vortex merge", b"ray::vortex write")):
                if parent_of(parent_of(path.parent.name)) == os.getpid():
                    yield int(path.parent.name)


def test_random_workers_are_killed(machines, tmp_path, rng, way):
    records, how, expected = random_records("100 bytes", rng, 20_000)
    names = files_of(records, tmp_path / "in", 3, rng)
    killed = []

    def kill(stage, done, total):
        there = sorted(workers()) if len(killed) < 3 and rng.random() < 0.5 else []
        if there:
            killed.append(int(rng.choice(there)))
            with contextlib.suppress(ProcessLookupError):
                os.kill(killed[-1], signal.SIGKILL)

    with nothing_left(tmp_path):
        vortex.ray.sort(
            names, tmp_path / "in/out", **how, partitions=6, folders=tmp_path, memory=LEAST, progress=kill
        )
    assert output_of(tmp_path / "in/out", np.uint8).tobytes() == expected.tobytes()
    assert names_in(tmp_path / "in/out") == ["manifest.json", *(f"part-{at:05}" for at in range(6))]


def test_one_more_interrupt_waits(place, monkeypatch):
    """Until what the first one has left is removed."""
    job, removed = job_of(Storage().join(place, "out")), []
    remove = Storage.remove

    def interrupted(storage, name):
        removed.append(name)
        os.kill(os.getpid(), signal.SIGINT)
        remove(storage, name)

    def stop(sort):
        NoTasks.run(sort)
        raise KeyboardInterrupt

    monkeypatch.setattr(Storage, "remove", interrupted)
    sort = NoTasks(job)
    monkeypatch.setattr(sort, "run", lambda: stop(sort), raising=False)
    handler = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        vortex.ray._sort(job, sort, [])
    assert len(removed) == 3
    assert Storage().names(job.output) == []
    assert signal.getsignal(signal.SIGINT) is handler


def test_ends_are_asked_for_in_linear_time(monkeypatch):
    """However many tasks there are: each call has to do with all references that it gets."""
    asked = []

    def wait(refs, num_returns, timeout, fetch_local):
        asked.append(len(refs))
        return refs[: min(num_returns, 3)], refs[min(num_returns, 3) :]

    monkeypatch.setattr(_ray_started.ray, "wait", wait)
    counts = []
    for count in (10_000, 20_000):
        asked.clear()
        told = []
        tasks = _ray_started.Tasks(job_of("out"), lambda *what: told.append(what))
        assert list(tasks.ended(dict.fromkeys(range(count), 2), "mapping", 2 * count)) == list(range(count))
        assert told[-1] == ("mapping", 2 * count, 2 * count)
        counts.append(sum(asked))
    assert counts[1] < 2.5 * counts[0]


@pytest.mark.parametrize("way_of_keys", [[(2, 3, 0, False, False)], [(6, 2, 1, False, True), (0, 4, 1, True, False)]])
def test_samples_are_keys(tmp_path, rng, way_of_keys):
    """And divide as the records do that they were taken from."""
    form = RecordForm(1000, way_of_keys)
    records = np.zeros((300, 1000), np.uint8)
    records[:, :8] = rng.integers(0, 3, (300, 8))
    records.tofile(tmp_path / "a")
    stamp = Storage().stamp(str(tmp_path / "a"))
    samples = form.sample(Storage(), 0, [Piece(0, str(tmp_path / "a"), stamp, 0, records.size)], 40, 0)
    assert {len(one.record) for one in samples} == {sum(length for _, length, *_ in way_of_keys)}
    order = sorted(range(300), key=lambda at: sort_key(records[at].tobytes(), way_of_keys))
    place = {at: number for number, at in enumerate(order)}
    wanted = [one.place // 1000 for one in samples]
    assert [wanted[at] for at in form.order(samples)] == sorted(wanted, key=place.get)
    for one in samples:
        done, cuts = form.divide(0, records.copy().reshape(-1), [one], lambda size: np.empty(size, np.uint8))
        assert cuts == [0, 1000 * place[one.place // 1000], records.size]
        assert done.tobytes() == records[order].tobytes()


def sort_key(record, keys):
    """Of bytes, or of unsigned numbers, some of which descend."""
    found = []
    for offset, length, kind, big, descending in keys:
        part = record[offset : offset + length]
        number = int.from_bytes(part, "big" if kind == 0 or big else "little")
        found.append(-number if descending else number)
    return found


@pytest.mark.parametrize("kind", [8, 100])
def test_many_runs_are_merged_in_passes(tmp_path, rng, kind, monkeypatch):
    form = RecordForm(kind, [(0, 2, 0, False, False)])
    monkeypatch.setattr(_ray_forms, "_LEAST_OF_RUN", LEAST // 4)
    records = rng.integers(0, 256, (2000, kind), np.uint8)
    records[:, 0] = 0
    names = []
    for number, some in enumerate(np.split(records, np.sort(rng.integers(0, 2000, 30)))):
        names.append(str(tmp_path / f"{number:02}"))
        some[np.argsort(some[:, 1], kind="stable")].tofile(names[-1])
    expected = records[np.argsort(records[:, 1], kind="stable")]
    found = form.merge([], names, str(tmp_path / "out"), LEAST, True)
    assert (tmp_path / "out").read_bytes() == expected.tobytes()
    assert found == form.summary(expected.reshape(-1))
    assert not any(os.path.exists(name) for name in names)  # longer ones took their places


def test_from_a_shell(machines, tmp_path, rng, capsys):
    """A report with the names of one machine's."""
    numbers = rng.integers(0, 1 << 60, 5000)
    names = files_of(numbers, tmp_path / "in", 2, rng)
    out = str(tmp_path / "out")
    _ray_program.main([*names, "-o", out, "--dtype", "i8", "--partitions", "3", "-S", "32M", "--json"])
    report = json.loads(capsys.readouterr().out)
    assert (report["records_in"], report["records_out"], report["partitions"]) == (5000, 5000, 3)
    assert report["read_bytes"] == report["written_bytes"] == 40_000
    assert report["cpu_seconds"] > 0
    np.testing.assert_array_equal(output_of(tmp_path / "out", np.int64), np.sort(numbers))
    with pytest.raises(SystemExit) as ended:
        _ray_program.main(["--check", f"{out}/manifest.json"])
    assert ended.value.code is None
    (tmp_path / "out/part-00001").unlink()
    with pytest.raises(SystemExit, match="part-00001 is missing"):
        _ray_program.main(["--check", f"{out}/manifest.json"])
    with pytest.raises(SystemExit, match="already"):
        _ray_program.main([*names, "-o", out, "--dtype", "i8"])


@pytest.mark.parametrize(
    ("trouble", "stage", "error"),
    [
        ("vanishes", "sampling", errno.ENOENT),
        ("grows", "sampling", errno.ESTALE),
        ("stop", "mapping", None),
        ("stop", "writing", None),
    ],
)
def test_failures_leave_nothing(machines, tmp_path, rng, way, trouble, stage, error):
    records, how, _ = random_records("100 bytes", rng, 20_000)
    names = files_of(records, tmp_path / "in", 3, rng)
    (tmp_path / "runs").mkdir()

    def make_trouble(now, done, total):
        if now != stage or done < total / 3:
            return
        if trouble == "vanishes":
            with contextlib.suppress(FileNotFoundError):
                os.unlink(names[-1])
        elif trouble == "grows":
            with open(names[-1], "ab") as file:
                file.write(b"\n")
        else:
            raise KeyboardInterrupt if stage == "mapping" else Stopped

    wanted = OSError if error else KeyboardInterrupt if stage == "mapping" else Stopped
    with nothing_left(tmp_path / "runs", tmp_path / "out"), pytest.raises(wanted) as failed:
        vortex.ray.sort(
            names, tmp_path / "out", **how, partitions=6, folders=tmp_path / "runs", memory=LEAST, progress=make_trouble
        )
    if error:
        assert failed.value.errno == error
        assert failed.value.filename == names[-1]


@pytest.mark.parametrize("size", ["100k", "1m"])  # where it is known before, and where it shows
def test_a_full_folder(machines, tmp_path, rng, way, size):
    full = tmp_path / "full"
    full.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "none", full], capture_output=True, check=False)
    if mounted.returncode:
        pytest.skip(f"a file system of {size} cannot be mounted: {mounted.stderr.decode()}")
    try:
        records, how, _ = random_records("100 bytes", rng, 20_000)
        names = files_of(records, tmp_path / "in", 3, rng)
        out, runs = (full / "out", tmp_path) if way == "stores" else (tmp_path / "out", full)
        with nothing_left(full, runs), pytest.raises(OSError) as failed:
            vortex.ray.sort(names, out, **how, partitions=6, folders=runs, memory=LEAST)
        assert failed.value.errno == errno.ENOSPC
        assert ("its folders have" in str(failed.value)) == ((way, size) == ("folders", "100k"))
    finally:
        subprocess.run(["umount", full], check=True)


@pytest.fixture(scope="module")
def store(machines, tmp_path_factory):
    """The options of fsspec for a server like S3."""
    log = (tmp_path_factory.mktemp("s3") / "log").open("w+")
    server = subprocess.Popen(
        [os.path.join(os.path.dirname(sys.executable), "moto_server"), "-p", "0"], stdout=log, stderr=log
    )
    try:
        address = None
        while address is None:
            assert server.poll() is None, "moto_server has ended"
            log.seek(0)
            address = next((word for line in log for word in line.split() if word.startswith("http://")), None)
        yield {"key": "any", "secret": "any", "client_kwargs": {"endpoint_url": address}}
    finally:
        server.terminate()
        server.wait()


def test_objects(store, tmp_path, rng):
    """From a store like S3 into it, and by way of fsspec into a folder."""
    records, how, expected = random_records("100 bytes", rng, 5000)
    names = files_of(records, tmp_path / "in", 2, rng)
    file_system = fsspec.filesystem("s3", **store)
    file_system.mkdir("bucket")
    for name in names:
        file_system.put_file(name, f"bucket/in/{os.path.basename(name)}")
    remote = [f"s3://bucket/in/{os.path.basename(name)}" for name in names]
    with nothing_left(tmp_path):
        vortex.ray.sort(remote, "s3://bucket/out", **how, partitions=3, folders=tmp_path, storage_options=store)
    parts = sorted(file_system.ls("bucket/out", detail=False, refresh=True))
    assert [os.path.basename(part) for part in parts] == ["manifest.json", "part-00000", "part-00001", "part-00002"]
    assert b"".join(file_system.cat_file(part) for part in parts[1:]) == expected.tobytes()
    assert vortex.ray.check("s3://bucket/out/manifest.json", storage_options=store) is None
    file_system.pipe_file("bucket/out/part-00001", b"")
    assert "part-00001" in vortex.ray.check("s3://bucket/out/manifest.json", storage_options=store)
    # An error leaves nothing; neither does an upload whose writer was killed.
    begun = {"Bucket": "bucket", "Key": "stopped/part-00001"}
    other = {"Bucket": "bucket", "Key": "stopped/other"}
    for one in (begun, other):
        file_system.call_s3("create_multipart_upload", **one)

    def stop(stage, done, total):
        if stage == "writing" and done:
            raise Stopped

    with nothing_left(tmp_path), pytest.raises(Stopped):
        vortex.ray.sort(
            remote, "s3://bucket/stopped", **how, partitions=3, folders=tmp_path, storage_options=store, progress=stop
        )
    file_system.invalidate_cache()
    assert not file_system.exists("bucket/stopped")
    uploads = file_system.call_s3("list_multipart_uploads", Bucket="bucket")["Uploads"]
    assert [one["Key"] for one in uploads] == ["stopped/other"]
    vortex.ray.sort(names, f"faulty://{tmp_path}/out", **how, partitions=3)
    assert output_of(tmp_path / "out", np.uint8).tobytes() == expected.tobytes()
    assert names_in(tmp_path / "out") == ["manifest.json", "part-00000", "part-00001", "part-00002"]


@pytest.mark.parametrize("partitions", [0, 1, 5])
def test_datasets(machines, rng, partitions):
    """Beside Python's sort: strings with nulls, and floating-point numbers, which turn round."""
    pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    words = [None if at == 0 else "ab" * at for at in rng.integers(0, 5, 2000).tolist()]
    numbers = (rng.integers(-3, 4, 2000) / 2).tolist()
    rows = [{"word": word, "number": number, "place": at} for at, (word, number) in enumerate(zip(words, numbers))]
    schema = pa.schema({"word": pa.string(), "number": pa.float64(), "place": pa.int64()})
    blocks = [ray.put(pa.Table.from_pylist(rows[at : at + 300], schema)) for at in range(0, len(rows), 300)]
    dataset = ray.data.from_arrow_refs([*blocks, ray.put(schema.empty_table())])
    done = vortex.ray.sort_dataset(dataset, ["word", ("number", "descending")], partitions=partitions)
    assert done.schema().names == schema.names
    done = done.materialize()
    expected = sorted(rows, key=lambda row: (row["word"] is None, row["word"] or "", -row["number"]))
    assert done.take_all() == expected
    assert done.num_blocks() == (partitions or 7)
    counts = [ray.get(ref).num_rows for ref in done.to_arrow_refs()]
    assert max(counts) < 2 * len(rows) / len(counts)
    with pytest.raises(ValueError, match="no column"):
        vortex.ray.sort_dataset(dataset, "wrod")


def test_datasets_of_unlike_blocks(machines):
    """Types become wide enough for all blocks, and what a block lacks is null."""
    pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    blocks = [
        pa.table({"k": [3], "v": pa.array([1.5], pa.float32()), "w": ["x"]}),
        pa.table({"k": [2], "w": ["y"], "v": pa.array([0.1], pa.float64())}),
        pa.table({"k": [1], "v": pa.array([None], pa.null())}),
        pa.table({"k": pa.array([-4], pa.int8())}),
    ]
    for order in ([0, 1, 2, 3], [3, 2, 1, 0]):
        dataset = ray.data.from_arrow([blocks[at] for at in order])
        rows = [(row["k"], row["v"], row["w"]) for row in vortex.ray.sort_dataset(dataset, "k").take_all()]
        assert rows == [(-4, None, None), (1, None, None), (2, 0.1, "y"), (3, 1.5, "x")]
    with pytest.raises(Exception, match="incompatible types"):
        vortex.ray.sort_dataset(ray.data.from_arrow([blocks[0], pa.table({"k": ["x"]})]), "k").take_all()


def test_datasets_are_lazy(machines, tmp_path, rng):
    """Nothing runs before somebody asks for rows; what is made of the rows keeps their order."""
    pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    numbers = rng.integers(0, 1000, 900)

    def noted(batch):
        (tmp_path / os.urandom(8).hex()).touch()
        return batch

    dataset = ray.data.from_blocks([pa.table({"number": some}) for some in np.split(numbers, 9)])
    done = vortex.ray.sort_dataset(dataset.map_batches(noted, batch_size=None), "number", partitions=5)
    twice = done.map_batches(lambda batch: {"number": 2 * batch["number"]})
    assert names_in(tmp_path) == []
    assert twice.take(3) == [{"number": 2 * number} for number in np.sort(numbers)[:3]]
    assert len(names_in(tmp_path)) == 9
    assert [row["number"] for row in twice.iter_rows()] == (2 * np.sort(numbers)).tolist()
    assert vortex.ray.sort_dataset(dataset.filter(lambda _: False), "number").count() == 0
    # What is known only when it runs is refused only then.
    with pytest.raises(Exception, match="no column 'other'"):
        vortex.ray.sort_dataset(dataset.map_batches(noted, batch_size=None), "other").take(1)


def test_estimates():
    """The largest of what a stage uses binds, and decides."""
    hundred = {"nodes": 100, "processors": 16, "store": 32 << 30, "memory": 4 << 30}
    large = vortex.ray.estimate(100 * 10**12, **hundred, price=2)
    slow = vortex.ray.estimate(100 * 10**12, **hundred, price=2, rates=vortex.ray.Rates(network=1e6))
    assert (slow.mapping.limit, slow.writing) == ("network", large.writing)
    assert slow.seconds == pytest.approx(10**12 * 0.99 / 1e6 + large.writing.seconds)
    assert slow.price == pytest.approx(200 * slow.seconds / 3600)
    assert large.plan.waves > 1
    little = vortex.ray.estimate(10**9, **hundred)
    assert (little.plan.waves, little.writing.disks) == (1, 10**7 / 1e9)
    with pytest.raises(ValueError, match="nodes"):
        vortex.ray.estimate(1, **{**hundred, "nodes": 0})


@pytest.fixture(params=["files", "objects"])
def place(request, tmp_path):
    """A folder, or a place of fsspec."""
    if request.param == "files":
        yield str(tmp_path)
        return
    file_system = fsspec.filesystem("memory")
    file_system.mkdir("/place")
    yield "memory://place"
    file_system.rm("/place", recursive=True)


def test_only_what_writers_leave_is_removed(place):
    storage = Storage()
    keep = [".department-x", ".part-00001", ".part-00001.notes", "part-00001.0123456789ab", "part-00001", "other"]
    leave = [".part-00001.0123456789ab", ".part-00001.0123456789ab.12", "..part-00001.0123456789ab.00ff.part"]
    for name in keep + leave:
        storage.write_text(storage.join(place, name), "")
    storage.remove_unfinished(place, vortex.ray._PART)
    assert sorted(storage.names(place)) == sorted(keep)
    assert storage.names(storage.join(place, "none")) == []


def job_of(output, form=RecordForm(4, [(0, 4, 0, False, False)])):
    return Job("vortex-ray-test", form, output, [], LEAST, {})


@pytest.mark.parametrize("form", [LineForm(([], "", "", False), False), RecordForm(3, [(0, 3, 0, False, False)])])
def test_parts_that_end_early(tmp_path, form):
    """A last line without its newline has the bytes of the whole line."""
    part = tmp_path / "part"
    job = job_of(str(tmp_path), form)
    for content, rest in [(b"ab\nba\n", 0), (b"ab\nba", 2), (b"", 0)]:
        part.write_bytes(content)
        wanted = form.summary(np.frombuffer(content if rest == 0 else content + b"\n", np.uint8))
        said = _ray_tasks.check_part(job, str(part), wanted)
        assert said == (f"{part} has {rest} bytes behind its last record" if rest else "")


def test_npy_objects_are_refused(place):
    """The header of one may have the length of some records."""
    name, storage = Storage().join(place, "a.npy"), Storage()
    with fsspec.open(name, "wb") as file:
        np.save(file, np.arange(10))
    stamp = storage.stamp(name)
    with pytest.raises(ValueError, match=re.escape(f"{name}: a .npy file")):
        _ray_tasks._read(job_of(place), [Piece(0, name, stamp, 0, stamp.size)])
    numbers, _ = _ray_tasks._read(job_of(place), [Piece(0, name, stamp, 128, 80)])
    assert numbers.view(np.int64).tolist() == list(range(10))


@pytest.mark.parametrize("mark", ["ETag", "etag", "mtime", "last_modified"])
def test_stamps_of_objects(monkeypatch, mark):
    """Of S3, Azure's store, and others."""
    from fsspec.implementations.memory import MemoryFileSystem

    about = {"size": 3, "type": "file", "created": 1, mark: "a"}
    monkeypatch.setattr(MemoryFileSystem, "info", lambda *_, **__: about)
    before = Storage().stamp("memory://a")
    assert before == Storage().stamp("memory://a")
    about[mark] = "b"
    assert before != Storage().stamp("memory://a")


def test_each_machine_has_its_own_folder(monkeypatch, tmp_path):
    monkeypatch.setattr(_ray_tasks, "node", lambda: "node")
    job = job_of("out")
    for machine in ("a", "b"):
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / machine))
        assert job.folder(7) == str(tmp_path / machine / job.name / "node")
    job = job._replace(folders=["/c", "/d"])
    assert [job.folder(number) for number in (2, 3)] == [f"/{one}/{job.name}/node" for one in "cd"]


def test_another_node_cleans_the_same_folder(monkeypatch, tmp_path):
    """What this one is about to remove is gone by then; the other one has not seen the rest."""
    job = job_of("out")._replace(folders=[str(tmp_path)])
    here = tmp_path / job.name
    for name in ("a", "b"):
        (here / name).mkdir(parents=True)
    rmtree = shutil.rmtree

    def remove(folder):
        if (here / "a").exists():
            (here / "a").rmdir()
            raise FileNotFoundError(errno.ENOENT, "gone", str(here / "a"))
        rmtree(folder)

    monkeypatch.setattr(shutil, "rmtree", remove)
    _ray_tasks.clean(job)
    assert names_in(tmp_path) == []
    _ray_tasks.clean(job)


def test_half_a_text_has_no_name(monkeypatch):
    from fsspec.implementations.memory import MemoryFileSystem

    pipe_file = MemoryFileSystem.pipe_file

    def full(self, path, value, **more):
        pipe_file(self, path, value[:3], **more)
        assert Storage().names("memory://half") != ["manifest.json"]
        raise OSError(errno.ENOSPC, "full", path)

    with monkeypatch.context() as patch, pytest.raises(OSError):
        patch.setattr(MemoryFileSystem, "pipe_file", full)
        Storage().write_text("memory://half/manifest.json", "{text}")
    assert Storage().names("memory://half") == []
    Storage().write_text("memory://half/manifest.json", "{text}")
    assert Storage().names("memory://half") == ["manifest.json"]
    assert Storage().read_text("memory://half/manifest.json") == "{text}"
    fsspec.filesystem("memory").rm("/half", recursive=True)


class NoTasks:
    """A sort that has written its parts already."""

    partitions = 2

    def __init__(self, job):
        self.tasks, self._job = self, job

    def run(self):
        storage = self._job.storage()
        for number in range(self.partitions):
            storage.write_text(storage.join(self._job.output, part_name(number)), "part")

    def end(self):
        pass

    clean = report = end


def test_an_interrupted_manifest_is_removed(place, monkeypatch):
    """Where the caller does not know that it is there already."""
    job = job_of(Storage().join(place, "out"))
    write_text = Storage.write_text

    def interrupted(storage, name, text):
        write_text(storage, name, text)
        if name.endswith(".json"):
            raise KeyboardInterrupt

    monkeypatch.setattr(vortex.ray, "_manifest", lambda *_: {})
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(Storage, "write_text", interrupted)
        vortex.ray._sort(job, NoTasks(job), [])
    assert Storage().names(job.output) == []
    vortex.ray._sort(job, NoTasks(job), [])
    assert sorted(Storage().names(job.output)) == ["manifest.json", "part-00000", "part-00001"]


@pytest.mark.parametrize("name", ["part-00001", "manifest.json", "part-123456"])
def test_output_that_is_there_stays(place, name):
    job, storage = job_of(place), Storage()
    storage.write_text(storage.join(place, name), "before")
    with pytest.raises(FileExistsError) as failed:
        vortex.ray._sort(job, NoTasks(job), [])
    assert failed.value.filename == storage.join(place, name)
    assert storage.read_text(storage.join(place, name)) == "before"
    assert storage.names(place) == [name]


def test_fewer_partitions_than_none(tmp_path):
    np.arange(3).tofile(tmp_path / "a")
    with pytest.raises(ValueError, match="-1 are none"):
        vortex.ray.sort(tmp_path / "a", tmp_path / "out", dtype="i8", partitions=-1)
    with pytest.raises(ValueError, match="-1 are none"):
        vortex.ray.sort_dataset(None, "key", partitions=-1)
    with pytest.raises(ValueError, match="nodes"):
        vortex.ray.estimate(1, nodes=1, processors=1, store=1 << 30, partitions=-1)


def test_refuses(machines, tmp_path):
    np.arange(3).tofile(tmp_path / "a")
    for how, said in [
        ({}, "dtype or a record"),
        ({"record": "csv"}, "CSV"),
        ({"dtype": "i8", "memory": 1}, "too little"),
        ({"dtype": "i8", "memory": 1 << 60}, "would take"),
    ]:
        with pytest.raises(ValueError, match=said):
            vortex.ray.sort(tmp_path / "a", tmp_path / "out", **how)
    with pytest.raises(OSError, match="multiple"):
        vortex.ray.sort(tmp_path / "a", tmp_path / "out", record=7)
    with pytest.raises(FileNotFoundError):
        vortex.ray.sort(tmp_path / "b", tmp_path / "out", dtype="i8")
    assert not (tmp_path / "out").exists()


def test_a_file_that_changes_while_it_is_read(place, monkeypatch):
    name, storage = Storage().join(place, "a"), Storage()
    storage.write_text(name, "abcd" * 100)
    read_into = Storage.read_into

    def changing(self, *where):
        read_into(self, *where)
        storage.write_text(name, "other")

    stamp = storage.stamp(name)
    monkeypatch.setattr(Storage, "read_into", changing)
    with pytest.raises(OSError) as failed:
        _ray_tasks._read(job_of(place), [Piece(0, name, stamp, 0, stamp.size)])
    assert (failed.value.errno, failed.value.filename) == (errno.ESTALE, name)


@pytest.fixture
def marks(monkeypatch):
    """What sorts tell each other of their ends."""
    from ray.experimental import internal_kv

    marks = {}
    for name, call in (("put", marks.__setitem__), ("del", marks.pop), ("exists", marks.__contains__)):
        monkeypatch.setattr(internal_kv, f"_internal_kv_{name}", call)
    return marks


def test_a_task_that_was_waited_for_is_waited_for_at_the_end(marks, monkeypatch):
    def interrupted(ref):
        raise KeyboardInterrupt

    waited = []

    def wait(refs, **how):
        waited.extend(refs)
        return refs, []

    monkeypatch.setattr(_ray_started.ray, "get", interrupted)
    monkeypatch.setattr(_ray_started.ray, "wait", wait)
    tasks = _ray_started.Tasks(job_of("out"), None)
    tasks._all.update("ab")
    with pytest.raises(KeyboardInterrupt):
        tasks.result("a")
    tasks.end()
    assert sorted(waited) == ["a", "b"] and marks == {}


def test_a_task_that_ends_too_late_makes_no_part(place, marks, monkeypatch):
    monkeypatch.setattr(_ray_started.ray, "wait", lambda refs, **how: ([], refs))
    monkeypatch.setattr(_ray_tasks, "node", lambda: "node")
    monkeypatch.setattr(_ray_tasks.Job, "folder", lambda *_: tempfile.gettempdir())
    job = job_of(place)
    tasks = _ray_started.Tasks(job, None)
    tasks._all.add("running")
    tasks.end()
    assert _ray_tasks.run(job, 1, None) is None
    with pytest.raises(_ray_tasks.Stopped):
        _ray_tasks._write(job, 0, [np.arange(10, dtype="i4").view(np.uint8)], [])
    assert Storage().names(place) == []


def test_cleaning_goes_on_behind_what_fails(place, monkeypatch):
    job = job_of(Storage().join(place, "out"))
    remove, cleaned = Storage.remove, []

    def refused(storage, name):
        if name.endswith("part-00000"):
            raise PermissionError(errno.EACCES, "refused", name)
        remove(storage, name)

    sort = NoTasks(job)
    monkeypatch.setattr(Storage, "remove", refused)
    monkeypatch.setattr(sort, "clean", lambda: cleaned.append(1), raising=False)
    monkeypatch.setattr(vortex.ray, "_manifest", lambda *_: {}["the sort's own"])
    with pytest.raises(KeyError, match="the sort's own"):
        vortex.ray._sort(job, sort, [])
    assert Storage().names(job.output) == ["part-00000"] and cleaned


@pytest.mark.parametrize("text", ['{"version": 1}', '{"version": 1, "record": "lines", "keys": null}',
                                  '{"version": 1, "record": 8, "keys": [], "parts": [3]}'])  # fmt: skip
def test_a_manifest_that_lacks_something(tmp_path, text):
    (tmp_path / "manifest.json").write_text(text)
    with pytest.raises(ValueError, match="manifest.json is no whole manifest"):
        vortex.ray.check(tmp_path / "manifest.json")
