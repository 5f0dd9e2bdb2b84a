#!/usr/bin/env python3
"""Shows what a build of the program consists of: its sections, and its code by crate.

A function counts for the crate that its name begins with, or for the first crate in its type arguments if that is the
standard library. Linux only, with nm and size of binutils; the program must not be stripped.

    cargo build --release
    python3 tools/binary-size/size.py target/release/annals
    python3 tools/binary-size/size.py target/release/annals --functions annals   # the largest functions of a crate
"""
import argparse
import collections
import re
import subprocess
import sys

# Crates with a linker name of their own.
C_LIBRARIES = {"sqlite3": "C (mostly SQLite)", "ZSTD": "zstd (C)", "HUF": "zstd (C)", "FSE": "zstd (C)", "XXH": "zstd (C)", "HIST": "zstd (C)"}
STANDARD = ("core", "alloc", "std", "hashbrown", "compiler_builtins", "rustc_demangle", "gimli", "addr2line", "object", "miniz_oxide")


def output(*command: str) -> list[str]:
    """Returns the lines that a command prints."""
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()


def crate_of(name: str) -> str:
    """Returns the crate that a demangled function belongs to."""
    for crate in re.findall(r"(?<![\w:])([a-z_][a-z0-9_]*)(?:\[[0-9a-f]+\])?::", name):
        if crate not in STANDARD and crate not in ("self", "super"):
            return crate
    if "::" in name:
        return "std"
    prefix = re.match(r"_?([A-Za-z]+[0-9]?)", name)
    return C_LIBRARIES.get(prefix.group(1), "C (mostly SQLite)") if prefix else "C (mostly SQLite)"


def functions(program: str) -> list[tuple[int, str, str]]:
    """Returns size, crate and name of each function."""
    found = {}
    for line in output("nm", "--print-size", "--demangle", "--defined-only", program):
        parts = line.split(None, 3)
        if len(parts) == 4 and parts[2] in "tTwW":
            # Functions that were folded into one have one address.
            found.setdefault(parts[0], (int(parts[1], 16), crate_of(parts[3]), parts[3]))
    return sorted(found.values(), reverse=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--functions", metavar="CRATE", help="list the largest functions of a crate")
    parser.add_argument("--top", type=int, default=25)
    args = parser.parse_args()
    all_functions = functions(args.program)
    if args.functions:
        for size, _, name in [one for one in all_functions if one[1] == args.functions][: args.top]:
            print(f"{size:8} {name}")
        return
    print("section                  bytes")
    for line in output("size", "-A", args.program):
        parts = line.split()
        if len(parts) == 3 and parts[1].isdigit() and int(parts[1]) >= 10_000:
            print(f"{parts[0]:20} {int(parts[1]):10,}")
    by_crate = collections.Counter()
    for size, crate, _ in all_functions:
        by_crate[crate] += size
    print("\ncrate                     code")
    for crate, size in by_crate.most_common(args.top):
        print(f"{crate:20} {size:10,}")
    print(f"{'(all)':20} {sum(by_crate.values()):10,}")


if __name__ == "__main__":
    sys.exit(main())
