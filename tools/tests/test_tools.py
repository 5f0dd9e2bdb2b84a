"""Short checks of the tools themselves; `./test` runs them."""
import filecmp
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

TOOLS = Path(__file__).resolve().parent.parent
ROOT = TOOLS.parent


def load(name, path):
    """Loads one script as a module, with its own folder first on the path."""
    sys.path.insert(0, str(path.parent))
    try:
        spec = importlib.util.spec_from_file_location(name, path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module
    finally:
        sys.path.remove(str(path.parent))


def files_below(folder):
    """Relative paths of all files below a folder, sorted."""
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


class GenCorpus(unittest.TestCase):
    """The generator of large histories."""

    def generate(self, folder, *extra):
        """Writes a small corpus."""
        command = [sys.executable, "-B", str(TOOLS / "gencorpus" / "gencorpus.py"), "--out", str(folder),
                   "--size", "200K", "--sessions", "5", "--projects", "2", *extra]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def test_same_seed_same_bytes_whatever_the_jobs(self):
        with tempfile.TemporaryDirectory() as scratch:
            one, two, other = (Path(scratch, name) for name in ("one", "two", "other"))
            self.generate(one, "--jobs", "1")
            self.generate(two, "--jobs", "2")
            self.generate(other, "--seed", "2")
            names = [name for name in files_below(one) if name != "manifest.json"]
            self.assertEqual(files_below(one), files_below(two))
            self.assertEqual(filecmp.cmpfiles(one, two, names, shallow=False), (names, [], []))
            self.assertNotEqual(files_below(one), files_below(other))
            lines = sum((one / name).read_bytes().count(b"\n") for name in names)
            manifest = json.loads((one / "manifest.json").read_text(encoding="utf-8"))
            self.assertIn(manifest["lines"] - lines, range(len(names) + 1))


class ProjectNames(unittest.TestCase):
    """The name of a project folder, which two tools compute on their own."""

    CASES = {
        "/home/dev/same_path": "-home-dev-same-path",
        "/home/dev/a b.c": "-home-dev-a-b-c",
        "/home/dev/\U0001F680": "-home-dev---",
        "/" + "x" * 250: "-" + "x" * 199 + "-",
    }

    def test_known_names(self):
        encode = load("encode_path", TOOLS / "resume-oracle" / "encode_path.py").project_dir_name
        build = load("build", ROOT / "fixtures" / "_traps" / "build.py").project_dir_name
        for path, name in self.CASES.items():
            self.assertTrue(encode(path).startswith(name), path)
            self.assertEqual(encode(path), build(path))
            self.assertEqual(encode(path, None), build(path, None))


class Oracle(unittest.TestCase):
    """The parts of the resume oracle that need no client."""

    def test_every_case_has_an_expectation(self):
        cases = load("cases", TOOLS / "resume-oracle" / "cases.py").CASES
        expected = json.loads((TOOLS / "resume-oracle" / "expected.json").read_text(encoding="utf-8"))
        self.assertEqual(sorted(cases), sorted(expected))

    def test_blocks_lose_only_reminders(self):
        oracle = load("resume_oracle", TOOLS / "resume-oracle" / "resume_oracle.py")
        content = [{"type": "text", "text": "<system-reminder>x</system-reminder>\n"}, {"type": "text", "text": "y"}]
        self.assertEqual(oracle.blocks_of(content), [{"type": "text", "text": "y"}])


class Scripts(unittest.TestCase):
    """Every script explains itself without side effects."""

    def test_help(self):
        environment = {**os.environ, "ORACLE_HOME": "/nonexistent", "XDG_CACHE_HOME": "/nonexistent"}
        for script in ("verify/verify_client.py", "verify/verify_sdk.py", "verify/record_leaves.py",
                       "resume-oracle/resume_oracle.py"):
            done = subprocess.run([sys.executable, "-B", str(TOOLS / script), "--help"], env=environment,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
            self.assertEqual((done.returncode, done.stderr), (0, ""), script)
            self.assertTrue(done.stdout, script)


class Prices(unittest.TestCase):
    """The script that makes the price list."""

    TABLE = """
providers: list = [Provider(id='anthropic', models=[ModelInfo(id='claude-test-1', context_window=200000,
    match=ClauseOr(or_=[ClauseEquals(equals='claude-trial'), ClauseStartsWith(starts_with='claude-test')]),
    prices=[ConditionalPrice(prices=ModelPrice(input_mtok=TieredPrices(base=Decimal('{price}'),
        tiers=[Tier(start=1000, price=Decimal('6'))]), output_mtok=Decimal('15'))),
      ConditionalPrice(constraint=StartDateConstraint(start_date=datetime.date(2026, 3, 1)),
        prices=ModelPrice(input_mtok=Decimal('2.50'), output_mtok=Decimal('10')))])])]
"""

    def make(self, scratch, price):
        """Makes a list from a table of one model, over the list that is there."""
        table, out = Path(scratch, "data.py"), Path(scratch, "prices.csv")
        table.write_text(self.TABLE.replace("{price}", price), encoding="utf-8")
        command = [sys.executable, "-B", str(TOOLS / "prices" / "make_prices.py"), str(table), "--out", str(out)]
        return subprocess.run(command, check=True, capture_output=True, text=True).stderr, out

    def test_rows_for_dates_contexts_and_batches(self):
        with tempfile.TemporaryDirectory() as scratch:
            module = load("make_prices", TOOLS / "prices" / "make_prices.py")
            module.ADDITIONS = Path(scratch, "none.csv")
            module.ADDITIONS.write_text(",".join(module.COLUMNS) + "\n", encoding="utf-8")
            table = Path(scratch, "data.py")
            table.write_text(self.TABLE.replace("{price}", "3"), encoding="utf-8")
            _, providers = module.load(table)
            rows = module.package_rows(providers, "test")
            module.add_derived(rows)
            lines = [line for line in module.render(rows).splitlines() if not line.startswith("#")][1:]
            self.assertEqual(lines, [
                "claude-test-1,anthropic,,,,3,15,,,,10,,200000,,test",
                "claude-test-1,anthropic,,1000,,6,15,,,,10,,200000,,test",
                "claude-test-1,anthropic,2026-03-01,,,2.5,10,,,,10,,200000,,test",
                "claude-test-1,anthropic,,,batch,1.5,7.5,,,,10,,200000,,half of the standard price",
                "claude-test-1,anthropic,,1000,batch,3,7.5,,,,10,,200000,,half of the standard price",
                "claude-test-1,anthropic,2026-03-01,,batch,1.25,5,,,,10,,200000,,half of the standard price",
                "claude-trial,,,,,,,,,,,,,claude-test-1,",
            ])

    def test_the_list_only_grows(self):
        with tempfile.TemporaryDirectory() as scratch:
            out = Path(scratch, "prices.csv")
            listed = ROOT / "crates" / "annals" / "data" / "prices.csv"
            out.write_bytes(listed.read_bytes())
            before = set(out.read_text(encoding="utf-8").splitlines())
            told, out = self.make(scratch, "3")
            self.assertEqual(told, "")
            after = set(out.read_text(encoding="utf-8").splitlines())
            self.assertEqual(before - after, set())
            self.assertEqual(len(after - before), 7)
            told, out = self.make(scratch, "4")
            self.assertIn("claude-test-1: input 3 → 4 (kept", told)
            self.assertEqual(set(out.read_text(encoding="utf-8").splitlines()), after)


if __name__ == "__main__":
    unittest.main()
