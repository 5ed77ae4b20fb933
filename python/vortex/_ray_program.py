"""python -m vortex.ray: sorts beyond one machine from a shell."""

from __future__ import annotations

import argparse
import json
import os
import sys

import ray

from .ray import check, sort


def _bytes(text: str) -> int:
    units = {"K": 10, "M": 20, "G": 30, "T": 40}
    return int(text[:-1]) << units[text[-1]] if text[-1:] in units else int(text)


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m vortex.ray",
        description="Sorts files into the parts of a folder on a cluster of Ray, or checks its manifest.json.",
    )
    parser.add_argument("inputs", nargs="+", help="files, or the manifest to --check")
    parser.add_argument("-o", "--output", help="the folder, or a place of fsspec")
    parser.add_argument("--check", action="store_true", help="tell what is wrong with an output; status 1 then")
    parser.add_argument("--record", help="bytes of each, or 'lines'")
    parser.add_argument("--dtype", help="of numpy, instead")
    parser.add_argument("-k", "--key", action="append", help="as for vortex.sort_file(); several, the first one first")
    parser.add_argument("--partitions", type=int, default=0)
    parser.add_argument("-S", "--memory", type=_bytes, default=0, help="for a task, as 512M")
    parser.add_argument("-T", "--folder", action="append", help="of each machine, for runs")
    parser.add_argument("--address", help="of the cluster; one in this machine where none is there")
    parser.add_argument("--progress", action="store_true", help="by a bar")
    parser.add_argument("--json", action="store_true", help="print a report, with the names of 'vortex sort --json'")
    options = parser.parse_args(arguments)
    if options.check == bool(options.output) or options.check and len(options.inputs) != 1:
        parser.error("an --output, or one manifest to --check")
    return options


def main(arguments: list[str] | None = None) -> None:
    """Raises SystemExit with a message for what a sort raises."""
    options = _options(arguments)
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    if not ray.is_initialized():
        ray.init(address=options.address, log_to_driver=False)
    try:
        if options.check:
            sys.exit(check(options.inputs[0]))
        report = sort(
            options.inputs,
            options.output,
            dtype=options.dtype,
            record=int(options.record) if (options.record or "").isdigit() else options.record,
            key=options.key,
            partitions=options.partitions,
            memory=options.memory,
            folders=options.folder,
            progress=options.progress,
        )
    except (OSError, ValueError) as error:
        sys.exit(f"vortex.ray: {error}")
    if options.json:
        print(json.dumps(report.json(), indent=2))
