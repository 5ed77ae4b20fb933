"""What pip and build call to make a wheel: meson-python, with a module of the stable ABI where there can be one.

One wheel serves all interpreters from 3.12 on. Older ones and those without a GIL get one each.
"""

import sys
import sysconfig

import mesonpy
from mesonpy import build_sdist, get_requires_for_build_sdist, get_requires_for_build_wheel

__all__ = ["build_sdist", "build_wheel", "get_requires_for_build_sdist", "get_requires_for_build_wheel"]


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    settings = dict(config_settings or {})
    # nanobind keeps to the stable ABI of 3.12.
    if sys.version_info < (3, 12) or sysconfig.get_config_var("Py_GIL_DISABLED"):
        given = settings.get("setup-args", [])
        settings["setup-args"] = [*([given] if isinstance(given, str) else given), "-Dpython.allow_limited_api=false"]
    return mesonpy.build_wheel(wheel_directory, settings, metadata_directory)
