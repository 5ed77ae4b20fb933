"""The library for Conan 2, from this checkout:

  conan create package/conan

liburing and lz4 come from the system, as does libsigsegv for the engine of that name, which is GPL.
"""

import pathlib
import re

from conan import ConanFile
from conan.tools.build import check_min_cppstd
from conan.tools.files import copy
from conan.tools.layout import basic_layout
from conan.tools.meson import Meson, MesonToolchain
from conan.tools.system.package_manager import Apt


class Vortex(ConanFile):
    name = "vortex"
    package_type = "shared-library"
    license = "Apache-2.0"
    description = "Arrays larger than memory through one plain pointer"
    settings = "os", "arch", "compiler", "build_type"
    options = {"engine": ["native", "libsigsegv"]}
    default_options = {"engine": "native"}

    def checkout(self):
        return pathlib.Path(self.recipe_folder).parent.parent

    def set_version(self):
        header = (self.checkout() / "include/vortex/version.h").read_text(encoding="utf-8")
        self.version = re.search(r'VERSION_STRING "(.*)"', header).group(1)

    def export_sources(self):
        copy(self, "*", src=self.checkout(), dst=self.export_sources_folder, excludes=(".git*", "build*"))

    def validate(self):
        check_min_cppstd(self, 20)

    def layout(self):
        basic_layout(self)

    def system_requirements(self):
        packages = ["liburing-dev", "liblz4-dev"]
        if self.options.engine == "libsigsegv":
            packages.append("libsigsegv-dev")
        Apt(self).install(packages, update=True, check=True)

    def generate(self):
        toolchain = MesonToolchain(self)
        toolchain.project_options["engine"] = str(self.options.engine)
        toolchain.project_options["jemalloc"] = "disabled"  # it serves the programs
        for part in ("program", "tests", "benchmarks", "examples"):
            toolchain.project_options[part] = False
        toolchain.generate()

    def build(self):
        meson = Meson(self)
        meson.configure()
        meson.build()

    def package(self):
        Meson(self).install()
        copy(self, "LICENSE", src=self.source_folder, dst=pathlib.Path(self.package_folder) / "licenses")

    def package_info(self):
        # find_package(vortex) and pkg-config find what the build has installed.
        self.cpp_info.set_property("cmake_find_mode", "none")
        self.cpp_info.libs = ["vortex", "vortex-streams", "vortex-arrays"]
        self.cpp_info.builddirs = ["lib/cmake/vortex"]
