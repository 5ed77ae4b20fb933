#!/usr/bin/env python3
"""Measures sorts beyond one machine, on nodes of Ray in this one: `./dev bench ray`."""

import argparse
import json
import os
import pathlib
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time

import numpy as np

RECORD = 100
PEERS = ["vortex", "ray.data", "numpy", "one process"]


def options_of(arguments):
    parser = argparse.ArgumentParser(
        prog="./dev bench ray",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
        description="Files sorted by nodes of Ray with a processor each, against Ray Data, a shuffle of two stages with "
        "numpy, and one process. Needs about four times the data in memory and on the disk.",
    )
    parser.add_argument("--mib", type=int, default=1024, help="of records of 100 bytes; half of u64")
    parser.add_argument("--kinds", default="records,u64", help="of elements")
    parser.add_argument("--peers", default=",".join(PEERS), help="these alone")
    parser.add_argument("--nodes", type=int, default=2, help="of Ray")
    parser.add_argument("--store-mib", type=int, default=1500, help="of each node")
    parser.add_argument("--memory-mib", type=int, default=512, help="of a task of vortex, and of the one process")
    parser.add_argument("--lose", action="store_true", help="a node in the middle, of vortex alone, too")
    parser.add_argument("--folder", default=".", help="on whose disk files are made")
    parser.add_argument("--peer", help=argparse.SUPPRESS)
    return parser.parse_args(arguments)


class Watch:
    """Processor seconds, and the peak of memory, of this process and all that it has started."""

    def __init__(self, spilled):
        self._spilled = spilled
        self._stores = shutil.disk_usage("/dev/shm").used
        self._before, self._begin = self._seconds(), time.monotonic()
        self._peak, self._looking, self._end = 0, 0.0, threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def _processes(self):
        parents = {}
        for path in pathlib.Path("/proc").glob("[0-9]*/stat"):
            try:
                text = path.read_text().rpartition(")")[2].split()
            except OSError:
                continue
            parents[int(path.parent.name)] = (int(text[1]), sum(map(int, text[11:15])))
        mine, more = {os.getpid()}, True
        while more:
            more = {pid for pid, (parent, _) in parents.items() if parent in mine and pid not in mine}
            mine |= more
        return {pid: parents[pid][1] for pid in mine if pid in parents}

    def _seconds(self):
        return sum(self._processes().values()) / os.sysconf("SC_CLK_TCK")

    def _look(self):
        while not self._end.wait(0.2):
            total = shutil.disk_usage("/dev/shm").used - self._stores
            for pid in self._processes():
                try:
                    found = re.search(r"RssAnon:\s*(\d+)", pathlib.Path(f"/proc/{pid}/status").read_text())
                except OSError:
                    continue
                total += int(found.group(1)) << 10 if found else 0
            self._peak, self._looking = max(self._peak, total), time.thread_time()

    def end(self):
        seconds = time.monotonic() - self._begin
        self._end.set()
        self._thread.join()
        processors = self._seconds() - self._before - self._looking
        spilled = sum(path.stat().st_size for path in self._spilled.rglob("*") if path.is_file())
        return {"seconds": seconds, "processors": processors, "peak": self._peak, "spilled": spilled}


def pieces_of(names, count):
    """File, offset and length of about as many ranges, of whole elements of either kind."""
    whole = 8 * RECORD
    for name in names:
        size = os.path.getsize(name)
        edges = [size * at // count // whole * whole for at in range(count)] + [size]
        yield from ((name, first, end - first) for first, end in zip(edges, edges[1:]))


def read(name, offset, length):
    return np.fromfile(name, np.uint8, length, offset=offset)


def leading(kind, content):
    """The numbers by which numpy sorts: of records eight bytes, which all but decide."""
    if kind == "u64":
        return content.view(np.uint64)
    return content.reshape(-1, RECORD)[:, :8].copy().view(">u8").reshape(-1).astype(np.uint64)


def by_numpy(kind, names, out, options):
    import ray

    parts = 4 * options.nodes
    edges = np.array([at * 2**64 // parts for at in range(1, parts)], np.uint64)
    size = 8 if kind == "u64" else RECORD

    def sorted_by_numpy(content):
        return content.reshape(-1, size)[np.argsort(leading(kind, content), kind="stable")].reshape(-1)

    @ray.remote(num_returns=parts)
    def divide(piece):
        content = sorted_by_numpy(read(*piece))
        return np.split(content, np.searchsorted(leading(kind, content), edges) * size)

    @ray.remote
    def merge(number, *contents):
        sorted_by_numpy(np.concatenate(contents)).tofile(out / f"{number:05}")

    divided = [divide.remote(piece) for piece in pieces_of(names, parts)]
    ray.get([merge.remote(number, *(of_piece[number] for of_piece in divided)) for number in range(parts)])


def by_ray_data(kind, names, out, options):
    import pyarrow as pa
    import ray

    def rows(batch):
        content = read(str(batch["name"][0]), int(batch["offset"][0]), int(batch["length"][0]))
        if kind == "u64":
            return pa.table({"key": content.view(np.uint64)})
        records = content.reshape(-1, RECORD)
        columns = [
            pa.FixedSizeBinaryArray.from_buffers(
                pa.binary(end - first), len(records), [None, pa.py_buffer(np.ascontiguousarray(records[:, first:end]))]
            )
            for first, end in ((0, 10), (10, RECORD))
        ]
        return pa.table(columns, names=["key", "rest"])

    def write(table):
        with open(out / os.urandom(8).hex(), "wb") as file:
            for column in table.columns:
                for chunk in column.chunks:
                    file.write(chunk.buffers()[1])
        return pa.table({"rows": [len(table)]})

    items = [dict(zip(("name", "offset", "length"), piece)) for piece in pieces_of(names, 4 * options.nodes)]
    data = ray.data.from_items(items, override_num_blocks=len(items)).map_batches(
        rows, batch_size=1, batch_format="numpy"
    )
    data.sort("key").map_batches(write, batch_size=None, batch_format="pyarrow").materialize()


def by_vortex(kind, names, out, options, progress=None):
    import vortex.ray

    how = {"dtype": "u8"} if kind == "u64" else {"record": RECORD, "key": "0:10"}
    report = vortex.ray.sort(
        names, out / "sorted", **how, memory=options.memory_mib << 20, folders=out, progress=progress
    )
    print(report, file=sys.stderr)


def measure(options):
    """One peer, by a process of its own."""
    peer, kind = options.peer.split(":")
    folder = pathlib.Path(options.folder)
    names, out, spilled = [str(folder / kind)], folder / "out", folder / "spilled"
    out.mkdir()
    spilled.mkdir()
    if peer == "one process":
        import vortex

        how = {"dtype": "u8"} if kind == "u64" else {"record": RECORD, "key": "0:10"}
        watch = Watch(spilled)
        vortex.sort_file(names, out / "sorted", **how, memory=options.memory_mib << 20)
        return watch.end()
    import ray

    sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "tests"))
    from ray_nodes import VARIABLES, Nodes

    os.environ.update(VARIABLES)
    machines = Nodes(options.nodes, options.store_mib << 20, spilled)
    try:
        ray.init(address=machines.cluster.address, log_to_driver=False)

        def lose(stage, done, total):
            if stage == "mapping" and done > total / 2 and len(machines.nodes) == options.nodes:
                machines.remove_one()

        import vortex  # noqa: F401 (in every worker that needs it, and before the clock runs)

        ray.get([ray.remote(lambda: __import__("vortex") and None).remote() for _ in range(options.nodes)])
        watch = Watch(spilled)
        if peer == "vortex":
            by_vortex(kind, names, out, options)
        elif peer == "vortex, a node lost":
            by_vortex(kind, names, out, options, lose)
        else:
            (by_numpy if peer == "numpy" else by_ray_data)(kind, names, out, options)
        return watch.end()
    finally:
        ray.shutdown()
        machines.cluster.shutdown()


def make(path, kind, mib):
    rng = np.random.default_rng(1)
    with open(path, "wb") as file:
        left = (mib << 20) // (8 * RECORD) * (8 * RECORD) // (2 if kind == "u64" else 1) // RECORD * RECORD // 8 * 8
        while left:
            some = min(left, 64 * 8 * RECORD << 10)
            file.write(rng.bytes(some))
            left -= some


def main():
    options = options_of(sys.argv[1:])
    if options.peer:
        print("\n" + json.dumps(measure(options)))
        return
    model = re.search(r"model name\s*:\s*(.*)", pathlib.Path("/proc/cpuinfo").read_text())
    print(
        f"# Sorts beyond one machine\n\nMachine: {model.group(1) if model else platform.processor()}, "
        f"{options.nodes} nodes of Ray in it, {options.store_mib} MiB of store each.\n"
        f"Command: `./dev bench ray {' '.join(sys.argv[1:])}`.\n\n"
        "| | seconds | processor seconds | peak, all nodes | spilled by Ray |\n|---|--:|--:|--:|--:|",
        flush=True,
    )
    peers = options.peers.split(",") + ["vortex, a node lost"] * options.lose
    with tempfile.TemporaryDirectory(prefix="vortex-bench-", dir=options.folder) as folder:
        for kind in options.kinds.split(","):
            make(f"{folder}/{kind}", kind, options.mib)
            for peer in peers:
                done = subprocess.run(
                    [sys.executable, __file__, *sys.argv[1:], "--folder", folder, "--peer", f"{peer}:{kind}"],
                    env={**os.environ, "HOME": folder},
                    stdout=subprocess.PIPE,
                    text=True,
                    check=True,
                )
                one = json.loads(done.stdout.splitlines()[-1])
                print(
                    f"| {kind}, {peer} | {one['seconds']:.1f} | {one['processors']:.1f} | {one['peak'] / 2**20:.0f} MiB | "
                    f"{one['spilled'] / 2**20:.0f} MiB |",
                    flush=True,
                )
                for made in ("out", "spilled"):
                    shutil.rmtree(f"{folder}/{made}")
            os.unlink(f"{folder}/{kind}")


if __name__ == "__main__":
    main()
