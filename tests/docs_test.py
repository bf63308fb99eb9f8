"""Markdown pages: links point to files and headings that exist, every page of docs/ is in its index, and the README is short.

Run by ctest; alone: python3 tests/docs_test.py [ROOT].
"""

import re
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
MOST_WORDS_IN_README = 1000


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
    pages = [page for page in root.rglob("*.md") if not {"build", "runs"} & set(page.relative_to(root).parts)]
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


class Docs(unittest.TestCase):
    def test_links_of_the_repository(self):
        self.assertEqual(broken_links(ROOT), [])

    def test_every_page_is_in_the_index(self):
        self.assertEqual(pages_not_in_index(ROOT / "docs"), [])

    def test_the_readme_is_a_landing_page(self):
        self.assertLessEqual(len((ROOT / "README.md").read_text().split()), MOST_WORDS_IN_README)

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
