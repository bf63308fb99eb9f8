"""Trireme as people get it: installs the build into a folder, then builds and runs examples/cpp outside the tree
against what is there. Every example checks its own result.

Run by ctest; alone: python3 tests/install_test.py SOURCE BUILD [-k TEST].
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SOURCE, BUILD = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
# Whole calls, so that one that hangs is seen; a busy machine takes its time to build.
SECONDS = 600


# What the build was made with, for programs that are to be linked with it.
CACHE = dict(re.findall(r"^(\w+):\w+=(.*)$", (BUILD / "CMakeCache.txt").read_text(), re.MULTILINE))
TOOLS = ("CMAKE_CXX_COMPILER", "CMAKE_TOOLCHAIN_FILE", "CMAKE_SYSROOT")


def run(*command, **more):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=SECONDS, **more)
    if done.returncode != 0:
        raise AssertionError(f"{command} ended with {done.returncode}:\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}")
    return done.stdout


class Installed(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory(prefix="trireme-install-")
        cls.root = Path(cls.temporary.name)
        cls.prefix = cls.root / "prefix"
        run("cmake", "--install", BUILD, "--prefix", cls.prefix)
        shutil.copytree(SOURCE / "examples" / "cpp", cls.root / "examples")
        options = [f"-DCMAKE_PREFIX_PATH={cls.prefix}", "-DCMAKE_BUILD_TYPE=Debug", "-GNinja"]
        options += [f"-D{tool}={CACHE[tool]}" for tool in TOOLS if CACHE.get(tool)]
        if shutil.which("ccache"):
            options.append("-DCMAKE_CXX_COMPILER_LAUNCHER=ccache")
        run("cmake", "-S", cls.root / "examples", "-B", cls.root / "build", *options)
        run("cmake", "--build", cls.root / "build")

    @classmethod
    def tearDownClass(cls):
        cls.temporary.cleanup()

    def example(self, name, *arguments):
        return run(self.root / "build" / name, *arguments, cwd=self.root)

    def test_a_model_of_ones_own(self):
        self.assertIn("on the right spiral", self.example("own_model"))

    def test_mixed_precision(self):
        self.assertIn("overflow", self.example("loop_mixed_precision"))

    def test_accumulation(self):
        self.assertIn("one batch", self.example("loop_accumulate"))

    def test_data_parallel(self):
        for ranks in ("1", "2"):
            self.assertIn(f"losses of {ranks} ranks", self.example("loop_data_parallel", ranks))

    def test_looking_inside(self):
        self.assertIn("the same weights\n", self.example("look_inside"))

    def test_planning_ahead(self):
        said = self.example("plan_ahead")
        self.assertRegex(said, r"against one rank: (equal|rounding)\n")
        self.assertIn("\nmesh pipe:2 data:2\nrank 0\n", said)
        self.assertRegex(said, r"the fastest of \d{2,} plans takes")

    def test_a_whole_run(self):
        self.assertIn("stopped after 200 steps, ended after 400", self.example("whole_run"))

    def test_a_job_that_starts_its_ranks(self):
        losses = {ranks: re.search(r"loss \d+\.\d{3}", self.example("train_job", ranks))[0] for ranks in ("1", "2")}
        self.assertEqual(losses["1"], losses["2"])
        # A plan that does not fit is refused once, before any rank is started.
        refused = subprocess.run([self.root / "build" / "train_job", "2", '{"mesh": "data:3"}'], cwd=self.root, capture_output=True,
                                 text=True)
        self.assertEqual(refused.returncode, 1)
        self.assertEqual(refused.stderr.count("train_job: "), 1, refused.stderr)
        self.assertEqual(refused.stdout, "")

    def test_every_example_is_run_here(self):
        programs = {path.stem for path in (SOURCE / "examples" / "cpp").glob("*.cc")}
        run_here = set(re.findall(r'self\.example\("(\w+)"', Path(__file__).read_text()))
        self.assertEqual(programs, run_here)

    def test_the_command_is_there(self):
        self.assertRegex(run(self.prefix / "bin" / "trireme", "--version"), r"\d+\.\d+")

    def test_headers_are_those_of_the_door_and_their_macros_are_ours(self):
        headers = sorted((self.prefix / "include").rglob("*"))
        text = {path.relative_to(self.prefix / "include").as_posix(): path.read_text()
                for path in headers if path.is_file()}
        self.assertIn("trireme/trireme.h", text)
        for inner in ("trireme/cli/", "trireme/kernels/cpu/", "trireme/data/test_"):
            self.assertFalse([name for name in text if name.startswith(inner)])
        for name, content in text.items():
            for included in re.findall(r'#include "(trireme/[^"]+)"', content):
                self.assertIn(included, text, name)
            for macro in re.findall(r"#\s*define\s+(\w+)", content):
                self.assertTrue(macro.startswith("TRIREME_"), f"{name}: {macro}")
            if name != "trireme/trireme.h":
                self.assertRegex(content, r"\nnamespace trireme\b", name)

    def test_pkg_config(self):
        """A program built by hand, with all of the libraries, so that nothing that they need may be missing."""
        found = list(self.prefix.rglob("trireme.pc"))
        self.assertEqual(len(found), 1)
        environment = {**os.environ, "PKG_CONFIG_PATH": str(found[0].parent)}
        flags = run("pkg-config", "--cflags", "--libs", "trireme", env=environment).split()
        ours = [flag for flag in flags if flag.startswith("-ltrireme")]
        others = [flag for flag in flags if flag not in ours]
        self.assertIn("-ltrireme_train", ours)
        if CACHE.get("TRIREME_SANITIZE") or CACHE.get("CMAKE_TOOLCHAIN_FILE"):
            return  # whose own flags are not in it
        source, program = self.root / "by_hand.cc", self.root / "by_hand"
        source.write_text("#include <trireme/run/config.h>\n"
                          "int main() { return trireme::resolve_config({}).config.model.family == \"gpt\" ? 0 : 1; }\n")
        run(CACHE["CMAKE_CXX_COMPILER"], "-std=c++20", source, "-o", program, *[flag for flag in others if flag.startswith("-L")],
            "-Wl,--whole-archive", *ours, "-Wl,--no-whole-archive", *others)
        run(program)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]], verbosity=2)
