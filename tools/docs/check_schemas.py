#!/usr/bin/env python3
"""Validates what the program prints for every fixture against the schemas of `annals schema`.

    tools/docs/check_schemas.py [--annals PROGRAM]      needs the package jsonschema

A member that a schema does not name is an error, too, except the members of a layout in rows of sessions. Exit codes:
0 all documents fit, 1 one does not, or a changed document was not noticed.
"""

import argparse
import concurrent.futures
import copy
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import threading

import jsonschema

ROOT = pathlib.Path(__file__).resolve().parents[2]
FIXTURES = ROOT / "fixtures"

# The commands without a session, and those about one.
LISTS = {
    "sessions": [["sessions"]],
    "projects": [["projects"]],
    "conversations": [["conversations"]],
    "search": [["search", "a*", "--limit", "5", "-C", "1"]],
    "cost": [["cost"], ["cost", "--by", "session", "--breakdown"], ["cost", "--by", "block"], ["cost", "--by", "project,model,agent"]],
    "check": [["check"]],
    "notes": [["notes"]],
    "todos": [["todos", "--all"]],
}
SESSIONS = {"show": [["show"], ["show", "--last", "3"]], "tree": [["tree"]], "files": [["files"]]}
PROBLEMS = {"type": "array", "items": {"type": "object"}}


def strict(schema, top=True):
    """Returns a schema in which each object with named members refuses all others."""
    schema = copy.deepcopy(schema)

    def close(node, inside_all_of=False):
        if isinstance(node, dict):
            if "properties" in node and "additionalProperties" not in node and not inside_all_of:
                node["unevaluatedProperties"] = False
            for name, value in node.items():
                # The parts of a flattened row are closed by the row.
                close(value, name in ("allOf", "oneOf", "anyOf") and "properties" in node)
        elif isinstance(node, list):
            for value in node:
                close(value, inside_all_of)

    close(schema)
    if top:
        schema.setdefault("properties", {})["problems"] = PROBLEMS
    return schema


def roots():
    """Yields the root of each fixture, as an argument."""
    for layout in sorted(path for path in FIXTURES.iterdir() if path.is_dir()):
        for root in sorted(path for path in layout.iterdir() if path.is_dir()):
            if layout.name == "export-file":
                root = next(path for path in root.iterdir() if path.is_file())
            yield f"{layout.name}:{root}"


class Program:
    def __init__(self, path, home):
        self.path = path
        self.environment = {"HOME": home, "PATH": os.environ["PATH"], "ANNALS_NOW": "2026-11-15T12:00:00Z", "TZ": "UTC"}

    def run(self, *words, timeout=None):
        command = [str(self.path), *words]
        done = subprocess.run(command, env=self.environment, cwd=self.environment["HOME"], capture_output=True, text=True, errors="surrogateescape", check=False, timeout=timeout)
        return done.stdout

    def document(self, root, words):
        """Returns what a command prints; None if it failed, or if it holds bytes that are no valid JSON."""
        text = self.run(*words, "--root", root, "--no-index", "--json")
        try:
            document = json.loads(text)
        except ValueError:
            return None
        return None if "error" in document else document


def first_error(validator, document):
    errors = sorted(validator.iter_errors(document), key=lambda it: len(it.absolute_path))
    return f"{errors[0].json_path}: {errors[0].message[:300]}" if errors else None


def notices_changes(validator, document):
    """The control: a renamed member and a wrong type must be found."""
    renamed = dict(document)
    name = next(iter(renamed))
    renamed[f"{name}_x"] = renamed.pop(name)
    return first_error(validator, renamed) is not None and first_error(validator, {**document, name: 1.5}) is not None


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--annals", type=pathlib.Path, default=ROOT / "target/debug/annals")
    arguments = parser.parse_args()
    counts, complaints, controlled = {}, [], set()
    with tempfile.TemporaryDirectory() as home:
        program = Program(arguments.annals.resolve(), home)
        validators, lock = {}, threading.Lock()
        for name in program.run("schema").split():
            schema = json.loads(program.run("schema", name))
            jsonschema.Draft202012Validator.check_schema(schema)
            validators[name] = jsonschema.Draft202012Validator(strict(schema, name != "watch"))

        def check(name, root, words):
            document = program.document(root, words)
            if document is None:
                return None
            error = first_error(validators[name], document)
            with lock:
                counts[name] = counts.get(name, 0) + 1
                if error:
                    complaints.append(f"annals {' '.join(words)} --root {root}: {error}")
                elif name not in controlled and len(document) > 1:
                    controlled.add(name)
                    if not notices_changes(validators[name], document):
                        complaints.append(f"the schema of {name} accepts a document that was changed")
            return document

        def check_root(root):
            for name, variants in LISTS.items():
                for words in variants:
                    document = check(name, root, words)
                    if name == "sessions" and document:
                        for row in document["sessions"][:2]:
                            for about, forms in SESSIONS.items():
                                for form in forms:
                                    check(about, root, [form[0], row["id"], *form[1:]])

        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            list(pool.map(check_root, roots()))
        # The sample of the demo has what the fixtures of single features lack; watch follows it until it ends.
        program.run("demo", "--keep", f"{home}/sample")
        root = f"claude-code:{home}/sample"
        for name, variants in LISTS.items():
            for words in variants:
                check(name, root, words)
        try:
            subprocess.run(
                [str(program.path), "watch", "--all", "-n", "5", "--cost", "--json", "--root", root],
                env=program.environment, stdout=(out := open(f"{home}/watch", "w+")), stderr=subprocess.DEVNULL, timeout=5, check=False,
            )
        except subprocess.TimeoutExpired:
            pass
        out.seek(0)
        for line in out.read().split("\n")[:-1]:
            counts["watch"] = counts.get("watch", 0) + 1
            error = first_error(validators["watch"], json.loads(line))
            if error:
                complaints.append(f"annals watch: {error}: {line[:200]}")
    for name in validators:
        if not counts.get(name):
            complaints.append(f"no document of {name} was checked")
        elif name != "watch" and name not in controlled:
            complaints.append(f"no document of {name} was changed for the control")
    for complaint in complaints[:40]:
        print(complaint)
    print(f"{sum(counts.values())} documents of {len(counts)} commands, {len(complaints)} complaints")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
