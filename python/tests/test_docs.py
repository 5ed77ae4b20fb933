"""The programs of docs/python.md run as they stand."""

import pathlib
import re
import subprocess
import sys

import pytest

TEXT = pathlib.Path(__file__).with_name("python.md").read_text(encoding="utf-8")
PROGRAMS = re.findall(r"^```python\n(.*?)^```$", TEXT, re.M | re.S)


def test_there_are_ten():
    assert len(re.findall(r"^\*\*\d+\. ", TEXT, re.M)) == 10
    assert len(PROGRAMS) == 11  # and tables


@pytest.mark.parametrize("number", range(1, len(PROGRAMS) + 1))
def test_program(number, tmp_path):
    program = PROGRAMS[number - 1]
    if "pyarrow" in program:
        pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    expected = re.findall(r"^# prints: (.*)$", program, re.M)
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, stdout=subprocess.PIPE, text=True, check=True)
    assert expected and done.stdout.rstrip().splitlines() == expected
