import os
import random
import subprocess
import sys

import numpy as np
import pytest


@pytest.fixture
def rng(request):
    """Random numbers; the seed is printed with a failure, and VORTEX_TEST_SEED repeats it."""
    seed = int(os.environ.get("VORTEX_TEST_SEED", random.randrange(1 << 32)))
    print(f"seed: VORTEX_TEST_SEED={seed}")
    return np.random.default_rng(seed)


@pytest.fixture
def numbers(rng, tmp_path):
    """A file of 24 MiB, and what it holds."""
    a = rng.integers(0, 1 << 40, 3 << 20)
    path = tmp_path / "numbers"
    a.tofile(path)
    return path, a


# ru_maxrss has what the parent held when it forked; VmHWM belongs to what was executed.
PEAK = """
import re, sys
import numpy as np, vortex
def status(name):
    return int(re.search(name + r":\\s*(\\d+)", open("/proc/self/status").read()).group(1))
before, code_before = status("VmHWM"), status("RssFile")
"""


@pytest.fixture
def peak_of():
    """Runs a program, which finds its arguments in sys.argv; returns by how many KiB its peak of
    memory grew after the imports, without the pages of code that came in, and what it printed."""

    if "VORTEX_SANITIZER" in os.environ:
        pytest.skip("the shadow of a sanitizer is memory, too")

    def run(program, *arguments):
        text = f"{PEAK}{program}\nprint(status('VmHWM') - before - (status('RssFile') - code_before))\n"
        done = subprocess.run([sys.executable, "-c", text, *arguments], stdout=subprocess.PIPE, text=True, check=True)
        *said, kib = done.stdout.split()
        return int(kib), said

    return run
