#!/usr/bin/env python3
"""Counts the public items of a library crate, by kind and by module.

Items of re-exported crates and of trait implementations are not counted; fields of enum variants are.
rustdoc's JSON is unstable, so a stable rustdoc is allowed to write it.

    python3 tools/public-items/count.py              # the crate `annals`
    python3 tools/public-items/count.py --list store # the items of one module
"""
import argparse
import collections
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

KINDS = ["struct", "enum", "trait", "function", "method", "struct_field", "variant", "constant", "type_alias", "static", "macro"]


def document(crate: str, extra: list[str]) -> dict:
    """Returns rustdoc's description of a crate."""
    rustdoc = subprocess.run(["rustup", "which", "rustdoc"], capture_output=True, text=True, check=False).stdout.strip()
    with tempfile.TemporaryDirectory() as dir:
        # Set for rustdoc only: build scripts of dependencies run again if it changes.
        wrapper = Path(dir) / "rustdoc"
        wrapper.write_text(f'#!/bin/sh\nRUSTC_BOOTSTRAP=1 exec {rustdoc or "rustdoc"} "$@"\n')
        wrapper.chmod(0o755)
        command = ["cargo", "rustdoc", "--quiet", "--lib", "-p", crate, *extra]
        command += ["--", "-Z", "unstable-options", "--output-format", "json"]
        subprocess.run(command, check=True, env=os.environ | {"RUSTDOC": str(wrapper)})
    target = os.environ.get("CARGO_TARGET_DIR", "target")
    return json.loads(Path(target, "doc", crate.replace("-", "_") + ".json").read_text())


def items(crate: dict) -> list[tuple[str, str]]:
    """Returns the kind and path of each public item."""
    index, paths = crate["index"], crate["paths"]
    found = []

    def path_of(id: int) -> str:
        return "::".join(paths[str(id)]["path"][1:]) if str(id) in paths else index[str(id)]["name"]

    def children(owner: str, kind: str, ids: list) -> None:
        for id in ids:
            item = index.get(str(id)) if id is not None else None
            if item is not None:
                found.append((kind, f"{owner}::{item['name']}"))
                variant = item["inner"].get("variant", {}).get("kind", {})
                if isinstance(variant, dict) and "struct" in variant:
                    children(f"{owner}::{item['name']}", "struct_field", variant["struct"]["fields"])

    for key, item in index.items():
        if item["crate_id"] != 0:
            continue
        (kind, inner), = item["inner"].items()
        if kind in ("struct", "enum", "trait", "constant", "type_alias", "static", "macro") and key in paths:
            name = path_of(int(key))
            found.append((kind, name))
            if kind == "struct" and isinstance(inner["kind"], dict):
                shape = inner["kind"]
                fields = shape["plain"]["fields"] if "plain" in shape else shape["tuple"]
                children(name, "struct_field", fields)
            if kind == "enum":
                children(name, "variant", inner["variants"])
            if kind == "trait":
                children(name, "method", inner["items"])
        elif kind == "function" and key in paths:
            found.append((kind, path_of(int(key))))
        elif kind == "impl" and inner["trait"] is None and "resolved_path" in inner["for"]:
            target = inner["for"]["resolved_path"]["id"]
            if index.get(str(target), {}).get("crate_id") == 0:
                children(path_of(target), "method", inner["items"])
    return sorted(set(found))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--crate", default="annals")
    parser.add_argument("--list", metavar="MODULE", help="print the items of a module; `all` for every one")
    parser.add_argument("cargo", nargs="*", help="options for cargo, after `--`")
    args = parser.parse_args()
    found = items(document(args.crate, args.cargo))
    if args.list:
        wanted = [f"{kind:12} {path}" for kind, path in found if args.list in ("all", path.split("::")[0])]
        print("\n".join(wanted))
        return
    by_kind = collections.Counter(kind for kind, _ in found)
    by_module = collections.Counter(path.split("::")[0] for _, path in found)
    print(f"{len(found)} public items of {args.crate}")
    print("  " + ", ".join(f"{by_kind[kind]} {kind}" for kind in KINDS if by_kind[kind]))
    for module, count in by_module.most_common():
        print(f"  {count:5} {module}")


if __name__ == "__main__":
    sys.exit(main())
