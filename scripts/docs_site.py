"""What MkDocs needs to make a site of pages that are written for a repository's browser.

Pages link to files outside docs/: those become pages below code/, Markdown as it is and other files as listings. The menu
is made from the headings and tables of docs/README.md, so that there is one index.
"""

import posixpath
import re
from pathlib import Path

from mkdocs.structure.files import File

ROOT = Path(__file__).resolve().parents[1]
MADE = ROOT / "build" / "site_pages"  # pages that are written for the site alone
LINK = re.compile(r"(\]\()([^)\s#]+)((?:#[^)\s]*)?\))")
FENCE = re.compile(r"(^```.*?^```[^\n]*$)", re.DOTALL | re.MULTILINE)
PICTURES = {".svg", ".png"}  # which pages show as they are
LANGUAGES = {".cc": "cpp", ".h": "cpp", ".py": "python", ".yaml": "yaml", ".toml": "toml"}


def outside_fences(change, markdown):
    """The page with `change` made of everything that is no block of code."""
    return "".join(part if i % 2 else change(part) for i, part in enumerate(FENCE.split(markdown)))


def page_of(file):
    """Where the site has a file of the repository: its path from the root of the site."""
    if (ROOT / file).is_dir() and (ROOT / file / "README.md").exists():
        file = posixpath.join(file, "README.md")
    if file.startswith("docs/"):
        return file.removeprefix("docs/")
    return "code/" + (file if file.endswith(".md") else file + ".md")


def source_of(page):
    """The file of the repository that a page shows."""
    if not page.startswith("code/"):
        return "docs/" + page
    file = page.removeprefix("code/")
    return file if (ROOT / file).exists() else file.removesuffix(".md")


def linked_files(file):
    """The files of the repository that the page of a file links to."""
    if (ROOT / file).is_dir():
        return [entry.relative_to(ROOT).as_posix() for entry in (ROOT / file).iterdir() if entry.is_file()]
    if not file.endswith(".md"):
        return []
    links = []
    outside_fences(lambda text: links.extend(target for _, target, _ in LINK.findall(text)) or text, (ROOT / file).read_text())
    inside = [posixpath.normpath(posixpath.join(posixpath.dirname(file), link)) for link in links if "://" not in link]
    return [link for link in inside if not link.startswith("..")]


def written_page(file):
    """The folder and name of a page that lists a folder or shows a source."""
    path = ROOT / file
    page = page_of(file)
    if path.is_dir():
        lines = [f"- [{entry.name}]({entry.relative_to(path)})" for entry in sorted(path.iterdir()) if entry.is_file()]
        text = "\n".join(lines)
    else:
        text = f"```{LANGUAGES.get(path.suffix, 'text')}\n{path.read_text()}\n```"
    (MADE / page).parent.mkdir(parents=True, exist_ok=True)
    (MADE / page).write_text(f"# {file}\n\n{text}\n")
    return MADE, page


def on_config(config):
    menu = [{"Trireme": "code/README.md"}, {"Index": "README.md"}]
    for shelf in (ROOT / "docs/README.md").read_text().split("\n## ")[1:]:
        heading = re.match(r"[^:\n]*", shelf)[0]
        rows = re.findall(r"^\| (\[.*?) \|", shelf, re.MULTILINE)
        menu.append({heading: [page for row in rows for _, page, _ in LINK.findall(row)]})
    config["nav"] = menu
    return config


def on_files(files, config):
    known = {file.src_uri for file in files}
    open_files = ["README.md"] + [source_of(page) for page in known if page.endswith(".md")]
    while open_files:
        file = open_files.pop()
        page = page_of(file)
        if page not in known:
            known.add(page)
            folder, source = (ROOT, file) if (ROOT / source_of(page)).suffix == ".md" else written_page(file)
            added = File(page, str(folder), config["site_dir"], config["use_directory_urls"])
            added.abs_src_path = str(folder / source_of(page)) if folder == ROOT else str(folder / source)
            files.append(added)
        open_files += [link for link in linked_files(source_of(page)) if page_of(link) not in known]
    return files


def on_page_markdown(markdown, page, config, files):
    here = source_of(page.file.src_uri)

    def rewrite(match):
        target = match[2]
        if "://" in target or page.file.src_uri.startswith("code/") and not here.endswith(".md") and (ROOT / here).is_file():
            return match[0]
        folder = here if (ROOT / here).is_dir() else posixpath.dirname(here)
        file = posixpath.normpath(posixpath.join(folder, target))
        to = file.removeprefix("docs/") if Path(file).suffix in PICTURES else page_of(file)
        return match[1] + posixpath.relpath(to, posixpath.dirname(page.file.src_uri)) + match[3]

    def change(text):
        text = re.sub(r"(</?(?:table|tr|td)>)", r"\n\1\n", text)  # code blocks inside HTML tables
        text = re.sub(r"<(table|tr|td)>", r'<\1 markdown="1">', text)
        text = re.sub(r"(?m)^(?!\s*[-*|>] |\s*$|#|\s*\d+\. )(.*\n)(?=- )", r"\1\n", text)  # a list needs an empty line before it
        return LINK.sub(rewrite, text)

    return outside_fences(change, markdown)
