"""Markdown pages: links point to files and headings that exist, every page of docs/ is in its index, the README is short,
files that the README of a folder names are there, and MkDocs makes a site of all that.

Run by ctest; alone: python3 tests/docs_test.py [ROOT].
"""

import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
MOST_WORDS_IN_README = 1000
FILE_NAME = re.compile(r"`([\w./-]+\.(?:h|cc|cu|cuh|py))`")
# Files that a reader is told to write.
TO_BE_WRITTEN = {"x_fuzz.cc", "mymodel.cc", "eager.cc"}


def prose(path):
    """The lines of a page outside code blocks."""
    return re.sub(r"^```.*?^```", "", path.read_text(), flags=re.DOTALL | re.MULTILINE)


def anchor(heading):
    """The anchor that GitHub gives a heading."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


def anchors(path):
    return {anchor(heading) for heading in re.findall(r"^#+ (.*)$", prose(path), flags=re.MULTILINE)}


def broken_links(root):
    """One line for each link to a file or heading that does not exist."""
    broken = []
    pages = [page for page in root.rglob("*.md") if not {"build", "runs", "node_modules"} & set(page.relative_to(root).parts)]
    for page in sorted(pages):
        for target in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
            if target.startswith(("http://", "https://")):
                continue
            file, _, heading = target.partition("#")
            linked = (page.parent / file).resolve() if file else page
            if not linked.exists():
                broken.append(f"{page.relative_to(root)}: {target} does not exist")
            elif heading and heading not in anchors(linked):
                broken.append(f"{page.relative_to(root)}: {target}: no such heading")
    return broken


def pages_not_in_index(docs):
    index = (docs / "README.md").read_text()
    return [page.name for page in sorted(docs.glob("*.md")) if page.name != "README.md" and f"({page.name})" not in index]


def missing_files(root):
    """One line for each source that the README of a folder of trireme/ names and that is neither below that folder or the one
    around it, nor at that path below trireme/ or the root."""
    missing = []
    for page in sorted(root.glob("trireme/**/README.md")):
        around = page.parent.parent if page.parent.parent != root / "trireme" else page.parent
        there = {"/" + file.relative_to(root).as_posix() for file in around.rglob("*")}
        for name in FILE_NAME.findall(prose(page)):
            found = any(file.endswith("/" + name.removeprefix("../")) for file in there)
            if not (found or name in TO_BE_WRITTEN or (root / name).exists() or (root / "trireme" / name).exists()):
                missing.append(f"{page.relative_to(root)}: {name} does not exist")
    return missing


class Docs(unittest.TestCase):
    def test_links_of_the_repository(self):
        self.assertEqual(broken_links(ROOT), [])

    def test_every_page_is_in_the_index(self):
        self.assertEqual(pages_not_in_index(ROOT / "docs"), [])

    def test_the_readme_is_a_landing_page(self):
        self.assertLessEqual(len((ROOT / "README.md").read_text().split()), MOST_WORDS_IN_README)

    def test_files_that_readmes_name(self):
        self.assertEqual(missing_files(ROOT), [])

    @unittest.skipUnless(shutil.which("mkdocs"), "needs mkdocs (scripts/install_packages.sh --docs)")
    def test_the_site(self):
        with tempfile.TemporaryDirectory() as folder:
            made = subprocess.run(["mkdocs", "build", "--strict", "--quiet", "--site-dir", folder], cwd=ROOT, capture_output=True, text=True)
            self.assertEqual(made.returncode, 0, made.stderr)
            library = (Path(folder) / "library.html").read_text()
            self.assertIn('href="code/examples/cpp/own_model.cc.html"', library)  # files outside docs/ are pages
            self.assertNotIn("markdown=", library)  # what is inside HTML was read too
            source = (Path(folder) / "code/examples/cpp/own_model.cc.html").read_text()
            self.assertIn("ModelRecord", source)
            for page in (ROOT / "docs").glob("*.md"):
                if page.name != "README.md":
                    self.assertIn(f'href="{page.stem}.html"', library)  # the menu has every page
            self.assertIsNone(re.search(r'<(?:script|link|img)[^>]*="https?:', library))  # nothing is loaded from elsewhere

    def test_missing_files_are_found(self):
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            for name in ["a/x.h", "a/in/y.cc", "b/z.h"]:
                (root / "trireme" / name).parent.mkdir(parents=True, exist_ok=True)
                (root / "trireme" / name).write_text("")
            (root / "trireme/a/README.md").write_text("`x.h` `y.cc` `b/z.h` `z.h` `gone.h`\n```\n`eg.h`\n```\n")
            self.assertEqual(missing_files(root), ["trireme/a/README.md: z.h does not exist",
                                                   "trireme/a/README.md: gone.h does not exist"])

    def test_broken_links_are_found(self):
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            (root / "a.md").write_text("# One `two`\n[b](b.md) [c](c.md) [own](#one-two) [b's](b.md#gone)\n```\n[x](x.md)\n```\n")
            (root / "b.md").write_text("```\n# gone\n```\n")
            self.assertEqual(broken_links(root), ["a.md: c.md does not exist", "a.md: b.md#gone: no such heading"])


if __name__ == "__main__":
    if len(sys.argv) > 1:
        ROOT = Path(sys.argv.pop(1)).resolve()
    unittest.main()
