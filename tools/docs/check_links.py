#!/usr/bin/env python3
"""Checks the links of all Markdown pages of the repository, and that the book has each page of docs/.

    tools/docs/check_links.py

A link to a file must name a file of the repository, and its anchor a heading of that page. A page of docs/ may link
only to docs/, because the rest is not part of the book; it names other files by their address in the repository.
With the folder of a built book as the argument, the links and anchors of its HTML pages are checked too.
Exit codes: 0 all links lead somewhere, 1 a link does not.
"""

import html.parser
import pathlib
import re
import subprocess
import sys
import urllib.parse

ROOT = pathlib.Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
BLOB = re.compile(r"https://github\.com/annals-dev/annals/(?:blob|tree)/main/([^#]*)")


def pages():
    """Returns the Markdown pages of the repository; those of fixtures are recordings."""
    command = ["git", "-C", str(ROOT), "ls-files", "--cached", "--others", "--exclude-standard", "*.md"]
    names = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split("\n")
    names = [name for name in names if name and not re.match(r"fixtures/[^/]+/[^/]+/|fuzz/corpus/", name)]
    return [ROOT / name for name in names if (ROOT / name).is_file()]


def prose(text):
    """Returns the text without code, line by line."""
    text = re.sub(r"^(```|~~~).*?^\1[^\n]*$", lambda it: re.sub(r"[^\n]", "", it.group()), text, flags=re.M | re.S)
    return re.sub(r"(`+)[^`\n]+\1", lambda it: "`" * len(it.group()), text)


def anchors(path):
    """Returns the anchors of the headings of a page, as GitHub and mdBook derive them."""
    text = re.sub(r"^(```|~~~).*?^\1[^\n]*$", "", path.read_text(encoding="utf-8"), flags=re.M | re.S)
    found = {}
    for heading in re.findall(r"^#{1,6} +(.*?)\s*$", text, flags=re.M):
        heading = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "")
        slug = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        count = found.get(slug, 0)
        found[slug] = count + 1
        if count:
            found[f"{slug}-{count}"] = 1
    return set(found)


def check_page(path):
    """Yields what is wrong with the links of a page."""
    text = path.read_text(encoding="utf-8")
    for number, line in enumerate(prose(text).split("\n"), 1):
        for target in re.findall(r"\]\(<?([^)>\s]+)>?[^)]*\)", line):
            wrong = broken(path, target)
            if wrong:
                yield f"{path.relative_to(ROOT)}:{number}: {target}: {wrong}"


def broken(path, target):
    """Returns why a link leads nowhere, or None."""
    blob = BLOB.match(target)
    if blob:
        return None if (ROOT / urllib.parse.unquote(blob.group(1))).exists() else "not in the repository"
    if re.match(r"[a-z]+:", target):
        return None
    name, _, anchor = target.partition("#")
    file = (path.parent / urllib.parse.unquote(name)).resolve() if name else path
    if not file.exists():
        return "no such file"
    if DOCS in path.parents and DOCS not in file.parents and file != DOCS:
        return "not part of the book; name its address in the repository"
    if anchor and file.suffix == ".md" and anchor not in anchors(file):
        return "no such heading"
    return None


def unlisted():
    """Yields the pages of docs/ that the book does not list."""
    summary = (DOCS / "SUMMARY.md").read_text(encoding="utf-8")
    listed = {(DOCS / name).resolve() for name in re.findall(r"\]\(([^)]+\.md)\)", summary)}
    for path in sorted(DOCS.rglob("*.md")):
        if path.name != "SUMMARY.md" and path.resolve() not in listed:
            yield f"docs/SUMMARY.md does not list {path.relative_to(DOCS)}"


class Page(html.parser.HTMLParser):
    """The ids and the targets of an HTML page."""

    def __init__(self):
        super().__init__()
        self.ids, self.targets = set(), []

    def handle_starttag(self, tag, attributes):
        for name, value in attributes:
            if name in ("id", "name") and value:
                self.ids.add(value)
            if name in ("href", "src") and value and tag != "base":
                self.targets.append(value)


def check_book(folder):
    """Yields the dead links of a built book."""
    parsed = {}
    for path in sorted(folder.rglob("*.html")):
        page = Page()
        page.feed(path.read_text(encoding="utf-8"))
        parsed[path.resolve()] = page
    for path, page in parsed.items():
        # The page of unknown addresses and the one for print have links of other places.
        if path.name in ("404.html", "print.html", "toc.html"):
            continue
        for target in page.targets:
            if re.match(r"[a-z]+:|//", target):
                continue
            name, _, anchor = urllib.parse.unquote(target).partition("#")
            file = (path.parent / name).resolve() if name else path
            if not file.exists():
                yield f"{path.relative_to(folder.resolve())}: {target}: no such file"
            elif anchor and file in parsed and anchor not in parsed[file].ids:
                yield f"{path.relative_to(folder.resolve())}: {target}: no such anchor"


def main():
    complaints = list(unlisted())
    count = 0
    for path in pages():
        count += 1
        complaints += check_page(path)
    for folder in sys.argv[1:]:
        complaints += check_book(pathlib.Path(folder))
    for complaint in complaints:
        print(complaint)
    print(f"{count} pages, {len(complaints)} complaints")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
