"""One build of the library with all mutants in it, one of which is selected at run time.

cargo-mutants lists the mutations; gates/mutator puts each behind a switch, and those that do not
compile are removed again. `ANNALS_MUTANT` selects a mutant; reached mutants are appended to the
file named by `ANNALS_MUTANT_REACHED`.
"""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
LIBRARY = Path("crates/annals/src")
ORDER = ("jsonl", "store", "repair", "archive")
# Allows what the library's lints deny, and operations that the compiler knows will fail.
LINTS = "#![allow(warnings, unsafe_code, arithmetic_overflow, unconditional_panic)]\n"
SWITCH = """
use std::io::Write;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

static ASKED: OnceLock<(usize, Option<std::ffi::OsString>)> = OnceLock::new();
static SEEN: [AtomicBool; COUNT] = [const { AtomicBool::new(false) }; COUNT];

pub fn on(number: usize) -> bool {
    let (chosen, record) = ASKED.get_or_init(|| {
        let chosen = std::env::var("ANNALS_MUTANT").ok().and_then(|number| number.parse().ok());
        (chosen.unwrap_or(0), std::env::var_os("ANNALS_MUTANT_REACHED"))
    });
    if let Some(path) = record && !SEEN[number].swap(true, Ordering::Relaxed) {
        let file = std::fs::OpenOptions::new().append(true).create(true).open(path);
        let _ = file.and_then(|mut file| file.write_all(format!("{number}\\n").as_bytes()));
    }
    *chosen == number
}
"""


class Mutant:
    """One mutation from the list of cargo-mutants."""

    def __init__(self, number, told, line):
        self.number = number
        self.file = told["file"]
        self.name = told["name"]
        self.what = re.sub(r"^\S+:\d+:\d+: ", "", told["name"])
        self.function = (told["function"] or {}).get("function_name", "")
        self.line = line
        self.told = told
        # Number among mutants of the same name and line, which differ only in their column.
        self.twin = 1

    @property
    def weight(self):
        """Sort key with the lower layers first, because their errors affect everything."""
        parts = Path(self.file).relative_to(LIBRARY).parts
        return ORDER.index(parts[0]) if parts[0] in ORDER else len(ORDER), self.number

    @property
    def key(self):
        """Name in gates/mutants-known.txt, independent of the line number."""
        twin = f" ({self.twin})" if self.twin > 1 else ""
        return f"{Path(self.file).relative_to(LIBRARY)} :: {self.what}{twin} :: {self.line}"


def listed(files):
    """Returns the mutations that cargo-mutants lists."""
    if subprocess.run(["cargo", "mutants", "--version"], capture_output=True, check=False).returncode != 0:
        print("installing cargo-mutants, which takes some minutes", flush=True)
        subprocess.run(["cargo", "install", "--locked", "cargo-mutants"], check=True)
    command = ["cargo", "mutants", "-p", "annals", "--list", "--json"]
    for file in files:
        command += ["--file", file]
    run = subprocess.run(command, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True, check=True)
    mutants, twins, texts = [], {}, {}
    # cargo-mutants adds these files to those of its configuration.
    wanted = [told for told in json.loads(run.stdout) if not files or told["file"] in files]
    for number, told in enumerate(wanted, 1):
        file = told["file"]
        if file not in texts:
            texts[file] = (REPOSITORY / file).read_text().splitlines()
        mutant = Mutant(number, told, texts[file][told["span"]["start"]["line"] - 1].strip())
        twins[mutant.key] = mutant.twin = twins.get(mutant.key, 0) + 1
        mutants.append(mutant)
    return mutants


class Tree:
    """A copy of the repository, and its builds."""

    def __init__(self, scratch):
        self.scratch = scratch
        self.path = scratch / "tree"
        self.environment = {
            **os.environ,
            "CARGO_TARGET_DIR": str(scratch / "target"),
            "CARGO_PROFILE_DEV_DEBUG": "0",
            # Tests are run thousands of times; overflow checks stay on.
            "CARGO_PROFILE_DEV_OPT_LEVEL": "1",
            # Everything changes anyway, and a killed incremental build leaves inconsistent parts.
            "CARGO_INCREMENTAL": "0",
            "INSTA_UPDATE": "no",
            "INSTA_WORKSPACE_ROOT": str(self.path),
        }

    def build(self, mutants):
        """Builds the tests with the mutants, unless the build for these sources exists.

        Returns the mutants built in, those to build separately, the unviable ones, and the
        programs.
        """
        memory = self.scratch / "built.json"
        known = json.loads(memory.read_text()) if memory.is_file() else {}
        state = self.state(mutants)
        if known.get("state") != state:
            memory.unlink(missing_ok=True)
            self.fresh()
            parts = self.viable(mutants)
            programs = self.tests("programs")
            if programs is None:
                return *parts, None
            numbers = [[mutant.number for mutant in part] for part in parts]
            known = {"state": state, "parts": numbers, "programs": {name: str(path) for name, path in programs.items()}}
            memory.write_text(json.dumps(known))
        number = {mutant.number: mutant for mutant in mutants}
        return *([number[n] for n in part] for part in known["parts"]), known["programs"]

    def state(self, mutants):
        """Returns a digest of everything that the build depends on."""
        digest = hashlib.sha256(json.dumps([mutant.told for mutant in mutants]).encode())
        for name in self.names():
            path = REPOSITORY / name
            if path.suffix in (".rs", ".toml", ".lock") and path.is_file():
                digest.update(f"{name}\0".encode() + hashlib.sha256(path.read_bytes()).digest())
        return digest.hexdigest()

    def names(self):
        """Returns all files that git tracks or would track."""
        command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        told = subprocess.run(command, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True, check=True)
        return sorted(filter(None, told.stdout.split("\0")))

    def fresh(self):
        """Copies the repository; times are preserved, so that only changes are rebuilt."""
        shutil.rmtree(self.path, ignore_errors=True)
        for name in self.names():
            source, target = REPOSITORY / name, self.path / name
            if source.is_symlink() or source.is_file():
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(source, target, follow_symlinks=False)

    def plant(self, mutants):
        """Puts mutants behind switches; returns the numbers of those to build separately, and of
        refused ones."""
        build = ["cargo", "build", "-q", "--manifest-path", str(REPOSITORY / "gates/mutator/Cargo.toml")]
        target = self.scratch / "mutator"
        subprocess.run(build, env={**os.environ, "CARGO_TARGET_DIR": str(target)}, check=True)
        asked = [{**mutant.told, "number": mutant.number} for mutant in mutants]
        command = [str(target / "debug/annals-mutator"), str(REPOSITORY), str(self.path)]
        run = subprocess.run(command, input=json.dumps(asked), stdout=subprocess.PIPE, text=True, check=True)
        count = max((mutant.number for mutant in mutants), default=0) + 1
        (self.path / LIBRARY / "mutant.rs").write_text(f"const COUNT: usize = {count};\n" + SWITCH)
        library = (REPOSITORY / LIBRARY / "lib.rs").read_text()
        (self.path / LIBRARY / "lib.rs").write_text(LINTS + library + "\n#[doc(hidden)] pub mod mutant;\n")
        answer = json.loads(run.stdout)
        return set(answer["apart"]), set(answer["refused"])

    def cargo(self, *arguments, **variables):
        command = ["cargo", *arguments, "--message-format=json"]
        environment = {**self.environment, **variables}
        run = subprocess.run(
            command, cwd=self.path, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False
        )
        messages = [json.loads(line) for line in run.stdout.splitlines() if line.startswith("{")]
        return run, messages

    def faulty(self):
        """Returns the numbers of the mutants with compiler errors."""
        run, messages = self.cargo("check", "-p", "annals", "--lib")
        if run.returncode == 0:
            return set()
        marks, faulty, others = {}, set(), []
        for message in messages:
            message = message.get("message")
            if not isinstance(message, dict) or message["level"] != "error" or not message["spans"]:
                continue
            spans = sorted(message["spans"], key=lambda span: not span["is_primary"])
            owners = [owner for span in spans if (owner := self.owner(span, marks))]
            # If a match arm is missing, the error shows where one should follow.
            arms = re.findall(r" if !crate::mutant::on\((\d+)\)", message["rendered"])
            if owners:
                faulty.add(owners[0])
            elif arms:
                faulty.add(int(arms[-1]))
            else:
                others.append(message["rendered"])
        if not faulty:
            sys.exit(f"the mutated library does not compile:\n{''.join(others)}{run.stderr[-2000:]}")
        return faulty

    def owner(self, span, marks):
        """Returns the mutant that contains a span: the innermost mark around it."""
        file = span["file_name"]
        if not (self.path / file).is_file():
            return None
        if file not in marks:
            text = (self.path / file).read_bytes()
            mark = rb"(?=(/\*<(\d+)\*/.*?/\*\2>\*/))"
            marks[file] = [(one.start(), one.end(1), int(one[2])) for one in re.finditer(mark, text, re.DOTALL)]
        around = [(end - start, number) for start, end, number in marks[file] if start <= span["byte_start"] and span["byte_end"] <= end]
        return min(around)[1] if around else None

    def viable(self, mutants):
        """Returns the mutants that compile together, those to build separately, and the unviable
        ones.

        A replaced return value has the right type or not. Other mutations may fail only because of
        their switch, so they are built separately. Results are cached by the digest of their file.
        """
        memory = self.scratch / "faulty.json"
        known = json.loads(memory.read_text()) if memory.is_file() else {}
        sums = {file: hashlib.sha256((REPOSITORY / file).read_bytes()).hexdigest() for file in {m.file for m in mutants}}
        faulty = {m.number for m in mutants if m.name in known.get(sums[m.file], [])}
        while True:
            # The mutator does not write a file without mutants.
            for file in sums:
                shutil.copy2(REPOSITORY / file, self.path / file)
            apart, refused = self.plant([m for m in mutants if m.number not in faulty])
            found = self.faulty()
            if not found:
                break
            faulty |= found
            print(f"  {len(faulty)} do not compile", flush=True)
        for mutant in mutants:
            if mutant.number in faulty and mutant.name not in (names := known.setdefault(sums[mutant.file], [])):
                names.append(mutant.name)
        memory.write_text(json.dumps(known))
        unviable = refused | {m.number for m in mutants if m.number in faulty and m.told["genre"] == "FnValue"}
        apart |= faulty - unviable
        built = [m for m in mutants if m.number not in unviable | apart]
        return built, [m for m in mutants if m.number in apart], [m for m in mutants if m.number in unviable]

    def single(self, mutant):
        """Applies one mutation to a plain copy, as cargo-mutants would."""
        self.fresh()
        lines = (REPOSITORY / mutant.file).read_text().splitlines(keepends=True)
        starts = [0]
        for line in lines:
            starts.append(starts[-1] + len(line))
        span, text = mutant.told["span"], "".join(lines)
        start = starts[span["start"]["line"] - 1] + span["start"]["column"] - 1
        end = starts[span["end"]["line"] - 1] + span["end"]["column"] - 1
        (self.path / mutant.file).write_text(text[:start] + mutant.told["replacement"] + text[end:])

    def tests(self, folder, **variables):
        """Builds the tests; returns copies of the programs in `folder`, or None if they do not
        compile."""
        run, messages = self.cargo("test", "-p", "annals", "--lib", "--test", "it", "--no-run", **variables)
        if run.returncode != 0:
            return None
        built = {m["target"]["name"]: m["executable"] for m in messages if m.get("executable") and m["profile"]["test"]}
        # A build of another tree in the same directory overwrites these names.
        programs = self.scratch / folder
        programs.mkdir(exist_ok=True)
        return {name: shutil.copy2(path, programs / name) for name, path in built.items()}
