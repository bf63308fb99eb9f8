"""What people read and start from: every block of docs/python.md, the example, the types, and the installed package."""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import trireme as tr
from common import SECONDS, SOURCE, Folder, main, run

PAGE = SOURCE / "docs" / "python.md"


class Page(Folder):
    def test_every_block_runs(self):
        text = PAGE.read_text()
        blocks = [(text[:match.start()].count("\n") + 2, match[1])
                  for match in re.finditer(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE)]
        self.assertGreater(len(blocks), 8)
        # One program, whose lines have the page's numbers.
        program = ""
        for line, block in blocks:
            program += "\n" * (line - 1 - program.count("\n")) + block
        Path("page.py").write_text(program)
        run(sys.executable, "page.py")

    def test_the_example(self):
        self.assertIn("points are on the right moon", run(sys.executable, SOURCE / "examples/python/moons.py"))

    @unittest.skipUnless(shutil.which("espeak-ng"), "espeak-ng is not here")
    def test_digits_are_heard(self):
        said = run(sys.executable, SOURCE / "examples/python/spoken_digits.py", "--steps", "60", "--rows", "8", "--voices", "2")
        losses = [float(loss) for loss in re.findall(r"loss ([\d.]+)", said)]
        self.assertLess(losses[-1], 0.2 * losses[0])
        self.assertIn("digits by other voices are wrong", said)


class Types(unittest.TestCase):
    def test_the_stub_has_what_the_module_has(self):
        stub = (SOURCE / "python/trireme/_trireme.pyi").read_text()
        classes = dict(re.findall(r"^class (\w+)[^\n]*\n(.*?)(?=^\S|\Z)", stub, re.DOTALL | re.MULTILINE))
        functions = set(re.findall(r"^def (\w+)", stub, re.MULTILINE))
        for name, value in vars(tr._trireme).items():
            if name.startswith("__"):
                continue
            if not isinstance(value, type):
                self.assertIn(name, functions)
                continue
            self.assertIn(name, stub)
            members = {member for member in vars(value) if not member.startswith("__") and "pybind11" not in member}
            if value is not tr.Error:
                declared = set(re.findall(r"^    (?:def )?(\w+)", classes[name], re.MULTILINE)) - {"def"}
                self.assertEqual(members - declared, set(), name)
                self.assertEqual({one for one in declared if not one.startswith("__")} - members, set(), name)

    def test_everything_public_has_a_description(self):
        for name in tr.__all__:
            self.assertTrue(getattr(tr, name).__doc__, name)

    @unittest.skipIf(shutil.which("mypy") is None, "mypy is not installed")
    def test_the_types_agree(self):
        run("mypy", "--strict", "--cache-dir", os.devnull, SOURCE / "python" / "trireme")


class Installed(unittest.TestCase):
    def test_it_needs_nothing_of_the_build(self):
        build = Path(os.environ["PYTHONPATH"]).parent
        with tempfile.TemporaryDirectory() as prefix:
            run("cmake", "--install", build, "--component", "python", "--prefix", prefix)
            (site,) = Path(prefix).rglob("site-packages")
            self.assertEqual(sorted(path.name.split(".")[0] for path in (site / "trireme").iterdir()),
                             ["__init__", "_trireme", "_trireme", "py"])
            self.assertFalse(any(path.is_symlink() for path in site.rglob("*")))
            said = run(sys.executable, "-c", "import trireme; print(trireme.__file__); print(trireme.Plan('zero1', 2))",
                       env={**os.environ, "PYTHONPATH": str(site)}, cwd=prefix)
            self.assertIn(str(site), said)
            self.assertIn("zero1", said)

    @unittest.skipIf(importlib.util.find_spec("pip") is None, "pip is not installed")
    def test_a_wheel(self):
        build = Path(os.environ["PYTHONPATH"]).parent
        sys.path.insert(0, str(SOURCE / "python"))
        from wheel_backend import pack
        with tempfile.TemporaryDirectory() as folder:
            run("cmake", "--install", build, "--component", "python", "--prefix", folder)
            (site,) = Path(folder).rglob("site-packages")
            wheel = pack(site, Path(folder))
            run(sys.executable, "-m", "pip", "install", "--no-index", "--no-deps", "--target", f"{folder}/there", f"{folder}/{wheel}")
            said = run(sys.executable, "-c", "import trireme; print(trireme.__file__)",
                       env={**os.environ, "PYTHONPATH": f"{folder}/there"}, cwd=folder)
            self.assertIn(f"{folder}/there", said)

    def test_a_program_without_numpy(self):
        hidden = "import sys; sys.modules['numpy'] = None\nimport array, trireme as tr\n" \
                 "m = tr.Model('m', inputs={'x': ('f32', [1]), 'c': ('i32', [])}, logits=lambda n, x: n.linear(x, 'w', 2))\n" \
                 "t = tr.Trainer(m, rows=2)\n" \
                 "t.step(x=memoryview(array.array('f', [1, 2])).cast('B').cast('f', [2, 1]), c=array.array('i', [0, 1]))\n" \
                 "print(memoryview(t.state('w.weight')).tolist())"
        self.assertIn("[[", run(sys.executable, "-c", hidden))


if __name__ == "__main__":
    main()
