#!/usr/bin/env python3
"""Makes the virtual environment in which the Python package is built and tested.

  environment.py FOLDER REQUIREMENTS

The wheels are those of the file REQUIREMENTS, fetched by pip. Does nothing where FOLDER has them already.
Exit status 1, and a line on stderr that says why, where they cannot be had.
"""

import pathlib
import shutil
import subprocess
import sys
import sysconfig
import venv


def reason_of(failed):
    lines = [line for line in failed.stderr.splitlines() if line.startswith("ERROR")]
    return lines[-1] if lines else f"pip ended with status {failed.returncode}"


def main():
    folder = pathlib.Path(sys.argv[1])
    requirements = pathlib.Path(sys.argv[2])
    # Wheels are those of one interpreter.
    wanted = f"{sys.executable} {sys.version}\n{requirements.read_text(encoding='utf-8')}"
    stamp = folder / "installed"
    if stamp.is_file() and stamp.read_text(encoding="utf-8") == wanted:
        return
    if not (pathlib.Path(sysconfig.get_paths()["include"]) / "Python.h").is_file():
        sys.exit("Python.h is missing (Debian: python3-dev)")
    shutil.rmtree(folder, ignore_errors=True)
    try:
        venv.create(folder, with_pip=True, symlinks=True)
    except subprocess.CalledProcessError:
        sys.exit("a virtual environment cannot be made (Debian: python3-venv)")
    # One try: a machine without a network is not to wait.
    pip = [folder / "bin/python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check",
           "--retries", "0", "--timeout", "10", "--only-binary", ":all:", "--requirement", requirements]
    installed = subprocess.run(pip, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False)
    if installed.returncode != 0:
        sys.exit(f"pip cannot install {requirements.name}, is the network there? {reason_of(installed)}")
    stamp.write_text(wanted, encoding="utf-8")


if __name__ == "__main__":
    main()
