#!/usr/bin/env python3
"""Runs the tests of the Python package, with the package installed from a wheel.

  python_package_test.py ROOT BUILD MISSING [--tables | --ray | --bench ARGUMENT... | --bench-ray ARGUMENT...]

BUILD/python/environment is the virtual environment; MISSING says why there is none, and is empty
otherwise. The wheel has what `pip wheel` puts into it, and is packed here from the module that BUILD
has already, which saves compiling the library a second time. With --tables the tests are those that want
PyArrow, Polars and DuckDB, in an environment of their own, and with --bench these are measured there; with
--ray and --bench-ray it is Ray, in another one.
"""

import base64
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import zipfile


def check_installed_files(root):
    """The folder of the package and what python/meson.build installs from it are the same."""
    text = (root / "python/meson.build").read_text(encoding="utf-8")
    listed = set(re.findall(r"'(vortex/[^']+)'", text))
    there = {f"vortex/{path.name}" for path in (root / "python/vortex").iterdir() if path.is_file()}
    if listed != there:
        sys.exit(f"python/meson.build installs {sorted(listed - there) or 'nothing'} that is not there, and not "
                 f"{sorted(there - listed) or 'nothing'} that is")


def pack_wheel(root, build, python, folder):
    """The wheel of the package that was built in BUILD/python, in `folder`."""
    about = (root / "pyproject.toml").read_text(encoding="utf-8")
    name = re.search(r'^name = "(.*)"', about, re.M).group(1)
    version = re.search(r"version: '(.*)'", (root / "meson.build").read_text(encoding="utf-8")).group(1)
    tag = subprocess.run(
        [python, "-c", "import sys, sysconfig; v = 'cp%d%d' % sys.version_info[:2];"
         "print(v, v + sys.abiflags, sysconfig.get_platform().replace('-', '_'), sep='-')"],
        stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
    stem = f"{name.replace('-', '_')}-{version}"
    files = {f"vortex/{path.name}": path.read_bytes() for path in (root / "python/vortex").iterdir() if path.is_file()}
    module, = (build / "python").glob("_core.*.so")
    files[f"vortex/{module.name}"] = module.read_bytes()
    files[f"{stem}.dist-info/METADATA"] = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n".encode()
    files[f"{stem}.dist-info/WHEEL"] = f"Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: {tag}\n".encode()
    record = f"{stem}.dist-info/RECORD"
    lines = []
    for path, content in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        lines.append(f"{path},sha256={digest},{len(content)}")
    files[record] = ("\n".join([*lines, f"{record},,"]) + "\n").encode()
    folder.mkdir(parents=True, exist_ok=True)
    wheel = folder / f"{stem}-{tag}.whl"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as out:
        for path, content in files.items():
            out.writestr(path, content)
    return wheel


def environment_with_peers(root, build, kind):
    """The environment that has what requirements_KIND.txt names, which is made when somebody wants it."""
    environment = build / f"python/{kind}-environment"
    made = subprocess.run([sys.executable, root / "python/environment.py", environment,
                           root / f"python/requirements_{kind}.txt"], stderr=subprocess.PIPE, text=True, check=False)
    if made.returncode != 0:
        print(made.stderr.strip())
        sys.exit(77)
    return environment


def install(root, build, environment, work):
    """Packs the wheel, puts it into the environment, and returns its interpreter."""
    python = environment / "bin/python"
    shutil.rmtree(work, ignore_errors=True)
    wheel = pack_wheel(root, build, python, work / "wheel")
    subprocess.run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-index",
                    "--no-deps", "--force-reinstall", wheel], check=True)
    return python


def main():
    root, build, missing, *options = [*map(pathlib.Path, sys.argv[1:3]), *sys.argv[3:]]
    if missing:
        print(f"{missing}; then `meson setup --reconfigure {build}` tries again")
        sys.exit(77)
    check_installed_files(root)
    kind = ("ray" if options[0].endswith("ray") else "tables") if options else ""
    work = build / (f"python/{kind}-tests" if kind else "python/tests")
    python = install(root, build, environment_with_peers(root, build, kind) if kind else build / "python/environment", work)
    variables = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    variables.pop("PYTHONPATH", None)
    benchmarks = {"--bench": "bench.py", "--bench-ray": "beyond.py"}
    if options and options[0] in benchmarks:
        os.execve(python, [python, root / "python/bench" / benchmarks[options[0]], *options[1:]], variables)
    # Tests lie elsewhere than the package's folder, so that they import what is installed.
    shutil.copytree(root / "python/tests", work, dirs_exist_ok=True)
    shutil.copy(root / "docs/python.md", work)
    if sanitizer := variables.get("VORTEX_SANITIZER"):
        # The interpreter is built without it, and leaks on purpose; faults are those of the tests.
        variables |= {"LD_PRELOAD": sanitizer, "ASAN_OPTIONS": "detect_leaks=0:handle_segv=0:handle_sigbus=0",
                      "PYTHONMALLOC": "malloc"}
    wanted = [work / "test_ray.py" if kind == "ray" else work]
    if kind == "tables":
        wanted = ["-n", "2", f"{work}/test_sorts.py::test_progress_by_the_real_tqdm",
                  *(work / f"test_{name}.py" for name in ("tables", "docs", "inputs", "faults"))]
    done = subprocess.run([python, "-m", "pytest", "-q", "-rsfE", "-p", "no:cacheprovider", *wanted],
                          cwd=work, env=variables, check=False)
    sys.exit(done.returncode)


if __name__ == "__main__":
    main()
