#!/usr/bin/env python3
"""Runs the commands of Markdown pages and compares what they print with the page.

    tools/docs/run_examples.py [--annals PROGRAM] [--update] FILE...

A block of the language `console` is what a terminal shows: lines that begin with `$ ` are commands, lines that begin
with `> ` continue them, and what follows is their output. All blocks of a page run in one bash, in an empty home, at a
fixed time. A command whose output is not shown may print anything; a line of the output that is only `…` stands for any
number of lines. Ids of sessions, numbers of processes and temporary paths may differ. A command must succeed unless the
page says `# exit code N` behind it.

The commands of a block of the language `sh` need a network, a compiler or a system to install into. SUBSTITUTES says how
each of them is tested; any other is an error.

--update writes the output that differs into the pages.
Exit codes: 0 as shown, 1 something differs, 2 invalid arguments.
"""

import argparse
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
NOW = "2026-11-18T12:00:00Z"
COLUMNS = "100"
MARK = "\x01example %d ended with %s\x01"

# What is run for a command of a `sh` block. None: `./test --packages` installs with it.
SUBSTITUTES = {
    "git clone https://github.com/annals-dev/annals": "true",
    "cd annals": "true",
    "cargo run --release -- demo": "annals demo",
    "./test": f"{ROOT}/test --help",
    "cargo install --locked --path crates/annals-cli": None,
    "sh packaging/install.sh": None,
    "sh packaging/deb.sh": None,
    "sudo apt install ./target/debian/annals_*.deb": None,
    "brew install --HEAD ./packaging/homebrew/annals.rb": None,
    "pip install ./bindings/python": None,
    "npm install ./bindings/node": None,
}


class Example:
    """One command of a page, the output that the page shows, and the lines of that output."""

    def __init__(self, line, command):
        self.line, self.command, self.begin, self.end = line, command, line, line
        self.shown = []

    @property
    def code(self):
        found = re.search(r"# exit code (\d+)$", self.command)
        return int(found.group(1)) if found else 0


def blocks(lines):
    """Yields the language of each fenced block and the numbers of its lines."""
    language, begin = None, 0
    for number, line in enumerate(lines):
        if not line.startswith("```"):
            continue
        if language is None:
            language, begin = line[3:].split(",")[0].strip(), number + 1
        else:
            yield language, begin, number
            language = None


def examples(lines):
    """Returns the commands of a page with their outputs, those of `sh` blocks without."""
    found, unknown = [], []
    for language, begin, end in blocks(lines):
        if language == "sh":
            for number in range(begin, end):
                command = re.sub(r"\s+#.*", "", lines[number]).strip()
                if command and not command.startswith("#"):
                    if command not in SUBSTITUTES:
                        unknown.append((number, command))
                    elif SUBSTITUTES[command]:
                        found.append(Example(number + 1, SUBSTITUTES[command]))
        if language != "console":
            continue
        current = None
        for number in range(begin, end):
            line = lines[number]
            if line.startswith("$ "):
                current = Example(number + 1, line[2:])
                found.append(current)
            elif current is None:
                unknown.append((number, "output without a command"))
            elif line.startswith("> ") and not current.shown:
                current.command += "\n" + line[2:]
                current.begin = current.end = number + 1
            else:
                current.shown.append(line)
                current.end = number + 1
    return found, unknown


def run(found, program, home):
    """Runs commands in one bash, and returns the exit code and the output of each."""
    script = "".join(
        "{ %s\n} 2>&1 </dev/null\nprintf '%s\\n' \"$?\"\n" % (it.command, (MARK % (number, "%s")).replace("\x01", "\\001"))
        for number, it in enumerate(found)
    )
    environment = {
        "PATH": f"{program.parent}:{os.environ['PATH']}",
        "HOME": home,
        "TMPDIR": home,
        "ANNALS_NOW": NOW,
        "COLUMNS": COLUMNS,
        "TZ": "UTC",
        "LANG": "C.UTF-8",
        "USER": "dev",
    }
    output = subprocess.run(
        ["bash", "-c", script], cwd=home, env=environment, capture_output=True, timeout=300, check=False
    ).stdout.decode(errors="replace")
    results, rest = [], output
    for number in range(len(found)):
        match = re.search(MARK % (number, r"(\d+)") + "\n", rest)
        if not match:
            results.append((None, rest))
            break
        results.append((int(match.group(1)), rest[: match.start()]))
        rest = rest[match.end() :]
    return results


def masked(text, home):
    """Replaces what differs from run to run."""
    text = text.replace(home, "~")
    text = re.sub(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "UUID", text)
    text = re.sub(r"\b[0-9a-f]{12}\b", "REPAIRID", text)
    text = re.sub(r"annals-demo-[0-9a-f]{8}", "annals-demo-ID", text)
    return re.sub(r"\b(?=[0-9a-f]*[0-9])[0-9a-f]{8}\b|\b[a-f]{8}\b", "MASKEDID", text)


def matches(shown, printed):
    """Compares lines; a shown line `…` stands for any number of lines."""
    if not shown:
        return not printed
    if shown[0] == "…":
        return any(matches(shown[1:], printed[n:]) for n in range(len(printed) + 1))
    return bool(printed) and shown[0] == printed[0] and matches(shown[1:], printed[1:])


def clean(text):
    return [line.rstrip() for line in text.rstrip("\n").split("\n")] if text.strip() else []


def check(path, program, update):
    """Returns the number of examples and the complaints about a page."""
    lines = path.read_text(encoding="utf-8").split("\n")
    found, unknown = examples(lines)
    complaints = [f"{path}:{number + 1}: nothing tests this: {what}" for number, what in unknown]
    changes = []
    with tempfile.TemporaryDirectory() as home:
        results = run(found, program, home)
        for it, (code, output) in zip(found, results):
            where = f"{path}:{it.line}: {it.command}"
            if code != it.code:
                complaints.append(f"{where}\n  ended with {code}:\n{output}")
                continue
            printed = clean(output.replace(home, "~"))
            shown = clean("\n".join(it.shown))
            if shown and not matches(clean(masked("\n".join(shown), home)), clean(masked("\n".join(printed), home))):
                complaints.append(f"{where}\n  printed:\n" + "\n".join(printed))
                changes.append((it.begin, it.end, printed))
        if len(results) < len(found):
            complaints.append(f"{path}:{found[len(results)].line}: did not run")
    if update and changes:
        for begin, end, printed in sorted(changes, reverse=True):
            tail = [""] if lines[end - 1] == "" else []
            lines[begin:end] = printed + tail
        path.write_text("\n".join(lines), encoding="utf-8")
    return len(found), complaints


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--annals", type=pathlib.Path, default=ROOT / "target/debug/annals")
    parser.add_argument("--update", action="store_true")
    parser.add_argument("files", nargs="+", type=pathlib.Path)
    arguments = parser.parse_args()
    program = arguments.annals.resolve()
    if program.name != "annals" or not program.is_file():
        parser.error(f"{program} is not the program")
    total, failed = 0, 0
    for path in arguments.files:
        count, complaints = check(path, program, arguments.update)
        total += count
        failed += len(complaints)
        for complaint in complaints:
            print(complaint)
    print(f"{total} commands on {len(arguments.files)} pages, {failed} complaints")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
