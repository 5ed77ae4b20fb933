"""Builds the stranger's project of the tests against the package."""

import pathlib

from conan import ConanFile
from conan.tools.cmake import CMake, cmake_layout


class Consumer(ConanFile):
    settings = "os", "arch", "compiler", "build_type"
    generators = "CMakeToolchain", "VirtualRunEnv"

    def requirements(self):
        self.requires(self.tested_reference_str)

    def layout(self):
        cmake_layout(self)

    def build(self):
        cmake = CMake(self)
        cmake.configure(build_script_folder="../../../tests/project/consumer")
        cmake.build()

    def test(self):
        for program in ("uses_c", "sorts_numbers"):
            self.run(str(pathlib.Path(self.build_folder) / program), env="conanrun")
