#!/usr/bin/env python3
"""Makes the pages of docs/reference/ that come from the program and from the documentation of the code.

    tools/docs/make_reference.py [--annals PROGRAM] [--check]

commands.md        what `annals help` prints about each command
formats/NAME.md    how each agent stores its sessions: the documentation of crates/annals-layouts/src/layout/NAME
schemas/NAME.json  JSON Schemas of what `--json` prints, from the types of the rows

--check changes nothing and fails if a page is not up to date.
Exit codes: 0 up to date, 1 not.
"""

import argparse
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
REFERENCE = ROOT / "docs" / "reference"
LAYOUTS = ROOT / "crates/annals-layouts/src/layout"
SOURCE = "https://github.com/annals-dev/annals/blob/main"


class Program:
    """The program, in an empty home."""

    def __init__(self, path, home):
        self.path, self.home = path, home

    def run(self, *words):
        environment = {"HOME": self.home, "COLUMNS": "100", "LANG": "C.UTF-8", "TZ": "UTC"}
        command = [str(self.path), *words]
        return subprocess.run(command, env=environment, cwd=self.home, check=True, capture_output=True, text=True).stdout


def commands(program):
    """Returns the page about all commands."""
    top = program.run("help")
    page = [
        "# Commands",
        "",
        "What `annals help` and `annals help COMMAND` print. This page is made by `tools/docs/make_reference.py`.",
        "",
        "```text",
        top.rstrip(),
        "```",
        "",
    ]
    listed = top.split("\nGlobal options:")[0].split("\nLook:")[1]
    for verb in re.findall(r"^  ([a-z-]+) ", listed, flags=re.M):
        if verb != "help":
            page += command(program, [verb], 2)
    return "\n".join(page).rstrip() + "\n"


def command(program, words, level):
    """Returns the section about a command and those of its actions."""
    text = program.run("help", *words)
    section = [f"{'#' * level} annals {' '.join(words)}", "", "```text", text.rstrip(), "```", ""]
    actions = re.search(r"^Commands:\n((?:  .*\n)+)", text, flags=re.M)
    for action in re.findall(r"^  ([a-z][a-z-]*) ", actions.group(1), flags=re.M) if actions else []:
        if action != "help":
            section += command(program, [*words, action], level + 1)
    return section


def formats():
    """Returns the pages about the formats of agents, by file name."""
    pages, rows = {}, []
    for folder in sorted(path.parent for path in LAYOUTS.glob("*/mod.rs")):
        name = folder.name.replace("_", "-")
        lines = (folder / "mod.rs").read_text(encoding="utf-8").split("\n")
        text = "\n".join(re.sub(r"^//! ?", "", line) for line in lines if line.startswith("//!"))
        # Links of rustdoc lead to items of the crate, which the book does not have.
        text = re.sub(r"\[(`[^`]+`)\](\([^)]*\))?", r"\1", text)
        first, rest = text.split("\n", 1)
        where = f"crates/annals-layouts/src/layout/{folder.name}/mod.rs"
        pages[f"formats/{name}.md"] = f"# Format: {name}\n\n{first}\n{rest}\n\nSource: [`{where}`]({SOURCE}/{where})\n"
        rows.append(f"- [{name}](formats/{name}.md): {first}")
    pages["formats.md"] = (
        "# Formats of agents\n\nHow each program stores its sessions, field by field, as far as annals reads it. These pages are the\n"
        "documentation of the layouts in `crates/annals-layouts`.\n\n" + "\n".join(rows) + "\n\n"
        "What annals itself writes is in [the state directory](../STATE.md).\n"
    )
    return pages


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--annals", type=pathlib.Path, default=ROOT / "target/debug/annals")
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as home:
        program = Program(arguments.annals.resolve(), home)
        pages = {"commands.md": commands(program), **formats()}
        for name in program.run("schema").split():
            pages[f"schemas/{name}.json"] = program.run("schema", name)
    stale = []
    for name, text in sorted(pages.items()):
        path = REFERENCE / name
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            stale.append(name)
            if not arguments.check:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")
    made = {REFERENCE / name for name in pages}
    for path in [*REFERENCE.glob("formats/*.md"), *REFERENCE.glob("schemas/*.json")]:
        if path not in made:
            stale.append(f"{path.relative_to(REFERENCE)} (not made any more)")
            if not arguments.check:
                path.unlink()
    for name in stale:
        print(f"docs/reference/{name}: {'not up to date' if arguments.check else 'written'}")
    print(f"{len(pages)} pages, {len(stale)} of them {'not up to date' if arguments.check else 'written'}")
    return 1 if arguments.check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
