"""One build of the library with all mutants in it, of which one is chosen when it runs.

The list of changes is that of cargo-mutants; gates/mutator puts each behind a switch, and what does not compile is taken
out again. `ANNALS_MUTANT` chooses, `ANNALS_MUTANT_REACHED` names a file that is told which were come by.
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
# What the library may not do, and what the compiler can tell will fail.
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
    """One change, as cargo-mutants tells it."""

    def __init__(self, number, told, line):
        self.number = number
        self.file = told["file"]
        self.name = told["name"]
        self.what = re.sub(r"^\S+:\d+:\d+: ", "", told["name"])
        self.function = (told["function"] or {}).get("function_name", "")
        self.line = line
        self.told = told
        # Alike in name and line: the columns tell them apart.
        self.twin = 1

    @property
    def weight(self):
        """The lower layers first: what is wrong there is wrong everywhere."""
        parts = Path(self.file).relative_to(LIBRARY).parts
        return ORDER.index(parts[0]) if parts[0] in ORDER else len(ORDER), self.number

    @property
    def key(self):
        """What it is called in gates/mutants-known.txt, wherever the line has moved to."""
        twin = f" ({self.twin})" if self.twin > 1 else ""
        return f"{Path(self.file).relative_to(LIBRARY)} :: {self.what}{twin} :: {self.line}"


def listed(files):
    """What cargo-mutants would change."""
    if subprocess.run(["cargo", "mutants", "--version"], capture_output=True, check=False).returncode != 0:
        print("installing cargo-mutants, which takes some minutes", flush=True)
        subprocess.run(["cargo", "install", "--locked", "cargo-mutants"], check=True)
    command = ["cargo", "mutants", "-p", "annals", "--list", "--json"]
    for file in files:
        command += ["--file", file]
    run = subprocess.run(command, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True, check=True)
    mutants, twins, texts = [], {}, {}
    # It adds such files to those of the configuration.
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
    """A copy of the repository, and what is built of it."""

    def __init__(self, scratch):
        self.scratch = scratch
        self.path = scratch / "tree"
        self.environment = {
            **os.environ,
            "CARGO_TARGET_DIR": str(scratch / "target"),
            "CARGO_PROFILE_DEV_DEBUG": "0",
            # Tests are run thousands of times; overflows are still noticed.
            "CARGO_PROFILE_DEV_OPT_LEVEL": "1",
            # All of it changes anyhow, and a build that was killed leaves parts that do not fit.
            "CARGO_INCREMENTAL": "0",
            "INSTA_UPDATE": "no",
            "INSTA_WORKSPACE_ROOT": str(self.path),
        }

    def build(self, mutants):
        """Builds the tests with the mutants, unless that was done of just these sources.

        Returns what is built in, what must be built by itself, what is unviable, and the programs.
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
        """A digest of all that the build depends on."""
        digest = hashlib.sha256(json.dumps([mutant.told for mutant in mutants]).encode())
        for name in self.names():
            path = REPOSITORY / name
            if path.suffix in (".rs", ".toml", ".lock") and path.is_file():
                digest.update(f"{name}\0".encode() + hashlib.sha256(path.read_bytes()).digest())
        return digest.hexdigest()

    def names(self):
        """What git knows or would know."""
        command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        told = subprocess.run(command, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True, check=True)
        return sorted(filter(None, told.stdout.split("\0")))

    def fresh(self):
        """Copies all of it; times are kept, so that only what changed is built again."""
        shutil.rmtree(self.path, ignore_errors=True)
        for name in self.names():
            source, target = REPOSITORY / name, self.path / name
            if source.is_symlink() or source.is_file():
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(source, target, follow_symlinks=False)

    def plant(self, mutants):
        """Puts mutants behind their switches; returns the numbers of those that cannot be, and of the refused."""
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
        """The numbers of the mutants that the compiler complains of."""
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
            # A match that needs the arm shows where one would have to follow.
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
        """Whose text a span lies in: the innermost mark around it."""
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
        """Leaves out what does not compile; returns what is built in, what must be built by itself, and what is unviable.

        A changed result either has the type or has not. Another change may only be refused because of its switch, so that
        it is tried by itself. What was found is remembered with the text of its file.
        """
        memory = self.scratch / "faulty.json"
        known = json.loads(memory.read_text()) if memory.is_file() else {}
        sums = {file: hashlib.sha256((REPOSITORY / file).read_bytes()).hexdigest() for file in {m.file for m in mutants}}
        faulty = {m.number for m in mutants if m.name in known.get(sums[m.file], [])}
        while True:
            # One of which no mutant is left is not written by the mutator.
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
        """Puts one change into a plain copy, as cargo-mutants would."""
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
        """Builds the tests; returns the programs in that folder, or None where they do not compile."""
        run, messages = self.cargo("test", "-p", "annals", "--lib", "--test", "it", "--no-run", **variables)
        if run.returncode != 0:
            return None
        built = {m["target"]["name"]: m["executable"] for m in messages if m.get("executable") and m["profile"]["test"]}
        # Whoever builds another tree into the same directory takes the same names.
        programs = self.scratch / folder
        programs.mkdir(exist_ok=True)
        return {name: shutil.copy2(path, programs / name) for name, path in built.items()}
