"""Short tests of the tools; `./test` runs them."""
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

    def test_the_manifest_stays_true_when_a_history_grows(self):
        truth = load("truth", TOOLS / "gencorpus" / "truth.py")
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(scratch, "grown")
            self.generate(folder, "--forks", "0.5", "--torn", "1")
            manifest = folder / "manifest.json"
            before = json.loads(manifest.read_text(encoding="utf-8"))
            self.generate(folder, "--grow", "2")
            after = json.loads(manifest.read_text(encoding="utf-8"))
            self.assertEqual({key: after[key] for key in truth.SUMS}, truth.truth(folder))
            self.assertGreater(after["responses"], before["responses"])
            self.assertEqual((before["torn_lines"], after["torn_lines"], after["sealed_lines"]), (5, 3, 2))
            lines = sum(path.read_bytes().count(b"\n") for path in folder.glob("projects/**/*.jsonl"))
            self.assertEqual(after["lines"], lines - after["sealed_lines"])
            self.generate(folder, "--grow", "1", "--grow-seed", "1", "--no-truth")
            self.assertNotIn("tokens_last", json.loads(manifest.read_text(encoding="utf-8")))


class Truth(unittest.TestCase):
    """The slow ledger, on histories of a few lines."""

    def setUp(self):
        self.module = load("truth", TOOLS / "gencorpus" / "truth.py")
        self.scratch = tempfile.TemporaryDirectory()
        self.addCleanup(self.scratch.cleanup)
        self.root = Path(self.scratch.name)

    def write(self, name, *lines):
        """Writes a log below projects/p; a line is (second, id, request, usage[, more members])."""
        path = self.root / "projects" / "p" / (name + ".jsonl")
        path.parent.mkdir(parents=True, exist_ok=True)
        text = ""
        for second, identity, request, usage, *more in lines:
            message = {"role": "assistant", "id": identity, "model": "m", "usage": usage}
            line = {"type": "assistant", "timestamp": f"2026-01-01T23:59:{second:02d}.000Z", "requestId": request, "message": message}
            for members in more:
                message.update(members.pop("message", {}))
                line.update(members)
            text += json.dumps(line) + "\n"
        path.write_text(text, encoding="utf-8")

    def sums(self):
        return self.module.truth(self.root)

    def output(self, table):
        """Returns the output tokens of each row."""
        return {key: row["output"] for key, row in table.items()}

    def test_a_response_counts_once_at_its_largest(self):
        self.write("s", (1, "a", "r", out(3)), (2, "a", "r", out(50)), (3, "a", "r", out(7)), (4, "a", "q", out(100)))
        found = self.sums()
        self.assertEqual((found["responses"], found["requests"]), (2, {"m": 2}))
        self.assertEqual((self.output(found["tokens_last"]), self.output(found["tokens_first"]), self.output(found["tokens_naive"])),
                         ({"m": 150}, {"m": 103}, {"m": 160}))

    def test_a_line_without_a_request_belongs_to_its_message(self):
        self.write("s", (1, "a", None, out(5)), (2, "a", "r", out(9)), (3, "b", None, out(1)), (4, "b", None, out(2)),
                   (5, None, None, out(10)), (6, None, None, out(10)))
        found = self.sums()
        self.assertEqual((found["responses"], self.output(found["tokens_last"])), (4, {"m": 31}))

    def test_the_session_that_had_it_first_pays(self):
        # Both forks repeat the first session's response; one of them has no other.
        self.write("old", (1, "a", "r", out(5)), (3, "b", "r", out(1)))
        self.write("fork", (1, "a", "r", out(6)), (9, "c", "r", out(2)))
        self.assertEqual(self.output(self.sums()["by_session"]), {"old": 7, "fork": 2})
        self.write("a-head", (1, "a", "r", out(5)))
        self.assertEqual(self.output(self.sums()["by_session"]), {"a-head": 6, "old": 1, "fork": 2})

    def test_what_says_that_it_is_a_copy_does_not_pay(self):
        self.write("fork", (1, "a", "r", out(5), {"forkedFrom": {"sessionId": "old"}}), (2, "c", "r", out(2)))
        self.write("old", (1, "a", "r", out(5)), (3, "b", "r", out(1)))
        self.write("resumed", (1, "b", "r", out(1), {"sessionId": "old"}))
        self.assertEqual(self.output(self.sums()["by_session"]), {"old": 6, "fork": 2})

    def test_sub_agents_are_paid_by_their_session_and_shown_apart(self):
        self.write("s", (1, "a", "r", out(5)))
        self.write("s/subagents/agent-x", (1, "a", "r", out(5)), (2, "b", "r", out(7)))
        self.write("agent-y", (3, "c", "r", out(11), {"sessionId": "s"}))
        found = self.sums()
        self.assertEqual(self.output(found["by_session"]), {"s": 23})
        self.assertEqual(self.output(found["by_agent"]), {"main": 5, "x": 7, "y": 11})
        self.assertEqual(self.output(found["sidechain"]), {"m": 18})

    def test_a_response_is_of_the_branch_that_its_payer_names(self):
        self.write("s", (1, "a", "r", out(5), {"gitBranch": "main"}), (2, "b", "r", out(7)), (3, "c", "r", out(11), {"gitBranch": ""}),
                   (4, "d", "r", out(13)), (5, "e", "r", out(17), {"gitBranch": "fix"}))
        self.write("t", (6, "a", "r", out(5), {"gitBranch": "other"}), (7, "f", "r", out(19), {"gitBranch": None}))
        self.assertEqual(self.output(self.sums()["by_git_branch"]), {"main": 12, "unknown": 24, "fix": 17, "other": 19})

    def test_cache_writes_are_split_and_bad_counts_left_out(self):
        split = {"cache_creation_input_tokens": 9, "cache_creation": {"ephemeral_5m_input_tokens": 4, "ephemeral_1h_input_tokens": 5}}
        self.write("s", (1, "a", "r", split), (2, "b", "r", {"cache_creation_input_tokens": 100}),
                   (3, "c", "r", {"input_tokens": -1, "output_tokens": "7", "cache_read_input_tokens": 1e3}),
                   (4, "d", "r", {"input_tokens": 10**12, "output_tokens": 1.5}),
                   (5, "e", "r", {"server_tool_use": {"web_search_requests": 3}}),
                   (6, "f", "r", out(1), {"message": {"model": "<synthetic>"}}))
        found = self.sums()
        tokens = {"input": 0, "output": 0, "cache_5m": 104, "cache_1h": 5, "cache_read": 1000}
        self.assertEqual((found["tokens_last"], found["web_searches"], found["responses"]), ({"m": tokens}, 3, 4))

    def test_a_response_over_midnight_is_of_the_day_it_began(self):
        self.write("s", (59, "a", "r", out(1)), (0, "a", "r", out(5), {"timestamp": "2026-01-02T02:00:01.500+02:00"}))
        self.assertEqual(self.output(self.sums()["by_day"]["2026-01-01"]), {"m": 5})


class VerifyCost(unittest.TestCase):
    """The comparison of reports, with a program that prints what the test gives it."""

    PRICES = """# A comment.
model,from,above,pace,input,output,cache_write_5m,cache_write_1h,cache_read,web_search,us_percent,same_as
claude-sonnet-4-5,,,,3,15,3.75,6,0.3,10,110,
claude-sonnet-4-5,,200000,,6,22.5,7.5,12,0.6,10,110,
claude-sonnet-4-5,,,batch,1.5,7.5,1.875,3,0.15,10,110,
claude-sonnet-4-5,2027-01-01,,,1,1,1,1,1,10,110,
sonnet,,,,,,,,,,,claude-sonnet-4-5
"""
    PROGRAM = """#!/bin/sh
case "$*" in *--help) echo --no-index; exit ;; esac
while [ "$1" != --by ]; do shift; done
cat "${0%/*}/$2.json"
"""

    def test_prices_by_day_context_pace_and_place(self):
        with tempfile.TemporaryDirectory() as scratch:
            Path(scratch, "prices.csv").write_text(self.PRICES, encoding="utf-8")
            module = load("verify_cost", TOOLS / "verify" / "verify_cost.py")
            prices = module.Prices(Path(scratch, "prices.csv"))
        day = module.truth.moment("2026-11-15T10:00:00Z")

        def cost(model="claude-sonnet-4-5-20250929", time=day, terms=("standard", None), price=None, **counts):
            counts = {**dict.fromkeys((*module.truth.COUNTS, "web_searches"), 0), **counts}
            found = prices.cost({"model": model, "time": time, "terms": terms, "counts": counts, "price": price})
            return None if found is None else str(found.normalize())

        self.assertEqual(cost(input=15000, output=2150, cache_5m=8000), "0.10725")
        self.assertEqual(cost("sonnet", cache_1h=1, cache_read=2), "0.0000066")
        self.assertEqual((cost(input=200000), cost(input=200000, cache_read=1)), ("0.6", "1.2000006"))
        self.assertEqual(cost(input=1000, terms=("batch", "us")), "0.00165")
        self.assertEqual(cost(input=1000, terms=("fast", None)), "0.003")
        self.assertEqual(cost(input=1000, time=module.truth.moment("2027-01-01T00:00:00Z")), "0.001")
        self.assertEqual(cost(web_searches=3), "0.03")
        self.assertEqual((cost("other", input=1), cost("other", input=1, price=2), cost(price=2)), (None, "2", "2"))

    def test_a_wrong_figure_is_found(self):
        with tempfile.TemporaryDirectory() as folder:
            scratch = Path(folder)
            (scratch / "prices.csv").write_text(self.PRICES, encoding="utf-8")
            (scratch / "annals").write_text(self.PROGRAM, encoding="utf-8")
            (scratch / "annals").chmod(0o755)
            logs = scratch / "root" / "projects" / "p"
            (logs / "s" / "subagents").mkdir(parents=True)
            for name, identity, usage in (("s", "a", {"input_tokens": 1000, "output_tokens": 50}),
                                          ("s/subagents/agent-x", "b", {"cache_read_input_tokens": 7})):
                message = {"id": identity, "model": "claude-sonnet-4-5", "usage": usage}
                line = {"type": "assistant", "timestamp": "2026-11-15T10:00:00Z", "message": message}
                (logs / (name + ".jsonl")).write_text(json.dumps(line) + "\n", encoding="utf-8")

            def row(key, requests, tokens, read, cost):
                return {"key": key, "requests": requests, "input": 1000 * tokens, "output": 50 * tokens, "cache_write_5m": 0,
                        "cache_write_1h": 0, "cache_read": read, "cost_usd": cost, "unpriced": 0}

            both = [2, 1, 7, "0.0037521"]
            says = {by: {"rows": [row(key, *both)], "total": row("total", *both)}
                    for by, key in (("model", "claude-sonnet-4-5"), ("day", "2026-11-15"), ("session", "s"), ("agent-id", ""),
                                    ("git-branch", "no branch"))}
            says["git-branch"]["rows"][0]["git_branch"] = None
            says["agent-id"]["rows"] = [row("main", 1, 1, 0, "0.00375"), row("x", 1, 0, 7, "0.0000021")]

            def verify():
                for by, document in says.items():
                    (scratch / (by + ".json")).write_text(json.dumps(document), encoding="utf-8")
                command = [sys.executable, "-B", str(TOOLS / "verify" / "verify_cost.py"), "--annals", str(scratch / "annals"),
                           "--prices", str(scratch / "prices.csv"), str(scratch / "root")]
                done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
                return done.returncode, done.stdout

            self.assertEqual(verify(), (0, "all 297 figures equal\n"))
            for by, name, wrong in (("day", "cost_usd", "0.003752100001"), ("agent-id", "output", 51), ("session", "key", "t"),
                                    ("model", "requests", 3), ("model", "unpriced", 1), ("git-branch", "git_branch", "main")):
                right = says[by]["rows"][0][name]
                says[by]["rows"][0][name] = wrong
                code, text = verify()
                self.assertEqual((code, "root, again, " + by in text), (1, True), text)
                says[by]["rows"][0][name] = right


class BenchCost(unittest.TestCase):
    """The check of the tables in the cost benchmark."""

    DAYS = {"2026-01-01": {"m": {"input": 1, "output": 2, "cache_5m": 3, "cache_1h": 4, "cache_read": 5, "requests": 1},
                           "n": {"input": 10, "output": 20, "cache_5m": 30, "cache_1h": 40, "cache_read": 50, "requests": 2}},
            "2026-01-02": {"m": {"input": 7, "output": 7, "cache_5m": 7, "cache_1h": 7, "cache_read": 7, "requests": 7}}}

    def check(self, kind, printed):
        bench = load("cost", ROOT / "bench" / "cost.py")
        with tempfile.TemporaryDirectory() as scratch:
            manifest, out_file = Path(scratch, "manifest.json"), Path(scratch, "out.json")
            manifest.write_text(json.dumps({"by_day": self.DAYS}), encoding="utf-8")
            out_file.write_text(json.dumps(printed), encoding="utf-8")
            return bench.differences(kind, manifest, out_file)

    def test_tables_of_three_tools(self):
        rows = [{"key": "2026-01-01", "requests": 3, "input": 11, "output": 22, "cache_write_5m": 33, "cache_write_1h": 44, "cache_read": 55},
                {"key": "2026-01-02", "requests": 7, "input": 7, "output": 7, "cache_write_5m": 7, "cache_write_1h": 7, "cache_read": 7}]
        annals = {"rows": rows, "total": {"cost_usd": "1.5"}}
        self.assertEqual(self.check("annals", annals), {"wrong": [], "days": None, "cost": "1.5"})
        daily = [{"date": row["key"], "inputTokens": row["input"], "outputTokens": row["output"], "cacheReadTokens": row["cache_read"],
                  "cacheCreationTokens": row["cache_write_5m"] + row["cache_write_1h"]} for row in rows]
        ccusage = {"daily": daily, "totals": {"totalCost": 1.5}}
        self.assertEqual(self.check("ccusage", ccusage), {"wrong": [], "days": None, "cost": 1.5})
        duckdb = {"rows": [{"day": day, "model": model, **counts} for day, models in self.DAYS.items() for model, counts in models.items()]}
        self.assertEqual(self.check("duckdb", duckdb), {"wrong": [], "days": None, "cost": None})
        # Cache writes are compared by lifetime, and all counts by day.
        rows[0]["cache_write_5m"], rows[0]["cache_write_1h"] = 44, 33
        self.assertEqual(self.check("annals", annals)["wrong"], ["cache_1h 40 instead of 51", "cache_5m 51 instead of 40"])
        daily[0]["outputTokens"], daily[1]["outputTokens"] = 20, 9
        found = self.check("ccusage", ccusage)
        self.assertEqual((found["wrong"], found["days"]), ([], "2 of 2 days differ, the first is 2026-01-01"))
        self.assertEqual(self.check("duckdb", {"rows": []})["wrong"], ["the table is empty"])


def out(tokens):
    """Returns a usage with this many output tokens."""
    return {"output_tokens": tokens}


class ProjectNames(unittest.TestCase):
    """The name of a project folder, which two tools compute independently."""

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
    """Every script prints its help without side effects."""

    def test_help(self):
        environment = {**os.environ, "ORACLE_HOME": "/nonexistent", "XDG_CACHE_HOME": "/nonexistent"}
        for script in ("verify/verify_client.py", "verify/verify_sdk.py", "verify/record_leaves.py",
                       "verify/verify_cost.py", "gencorpus/gencorpus.py", "gencorpus/truth.py",
                       "resume-oracle/resume_oracle.py", "../bench/run.py", "../bench/cost.py"):
            done = subprocess.run([sys.executable, "-B", str(TOOLS / script), "--help"], env=environment,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
            self.assertEqual((done.returncode, done.stderr), (0, ""), script)
            self.assertTrue(done.stdout, script)


class Prices(unittest.TestCase):
    """The script that writes the price list."""

    TABLE = """
providers: list = [Provider(id='anthropic', models=[ModelInfo(id='claude-test-1', context_window=200000,
    match=ClauseOr(or_=[ClauseEquals(equals='claude-trial'), ClauseStartsWith(starts_with='claude-test')]),
    prices=[ConditionalPrice(prices=ModelPrice(input_mtok=TieredPrices(base=Decimal('{price}'),
        tiers=[Tier(start=1000, price=Decimal('6'))]), output_mtok=Decimal('15'))),
      ConditionalPrice(constraint=StartDateConstraint(start_date=datetime.date(2026, 3, 1)),
        prices=ModelPrice(input_mtok=Decimal('2.50'), output_mtok=Decimal('10')))])])]
"""

    def make(self, scratch, price):
        """Makes a list from a table of one model, on top of the present list."""
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
            listed = ROOT / "crates" / "annals-cost" / "data" / "prices.csv"
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


class Golden(unittest.TestCase):
    """The recorder of the program's output and files."""

    def record(self, folder, script):
        """Records one fixture with a program that is a shell script."""
        program = Path(folder, "program")
        program.write_text("#!/bin/sh\n" + script, encoding="utf-8")
        program.chmod(0o755)
        command = [sys.executable, "-B", str(TOOLS / "golden" / "golden.py"), "record", str(Path(folder, "out")),
                   "--program", str(program), "--only", "clog/header-alone", "--history", "0"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)

    def compare(self, before, after):
        """Returns the exit code and the output of a comparison."""
        command = [sys.executable, "-B", str(TOOLS / "golden" / "golden.py"), "compare"]
        run = subprocess.run([*command, *(str(Path(one, "out")) for one in (before, after))],
                             check=False, capture_output=True, text=True)
        return run.returncode, run.stdout

    def test_a_difference_is_found_and_made_up_ids_are_none(self):
        fresh = "cat /proc/sys/kernel/random/uuid"
        with tempfile.TemporaryDirectory() as scratch:
            one, two, other = (Path(scratch, name) for name in ("one", "two", "other"))
            for folder, script in ((one, fresh), (two, fresh), (other, fresh + "; echo more")):
                folder.mkdir()
                self.record(folder, script)
            self.assertEqual(self.compare(one, two)[0], 0)
            code, printed = self.compare(one, other)
            self.assertEqual(code, 1)
            self.assertIn("+more", printed)


if __name__ == "__main__":
    unittest.main()
