"""Tests of the tools that check the documentation: what is wrong must be found."""
import re
import stat
import tempfile
import unittest
from pathlib import Path

from test_tools import TOOLS, load

run_examples = load("run_examples", TOOLS / "docs" / "run_examples.py")
check_links = load("check_links", TOOLS / "docs" / "check_links.py")


class RunExamples(unittest.TestCase):
    def setUp(self):
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.program = self.folder / "annals"
        self.program.write_text("#!/bin/sh\nprintf '%s\\n' one two three\nexit ${1:-0}\n")
        self.program.chmod(self.program.stat().st_mode | stat.S_IXUSR)

    def complaints(self, *lines, language="console"):
        page = self.folder / "page.md"
        page.write_text("\n".join([f"```{language}", *lines, "```", ""]))
        return run_examples.check(page, self.program, False)[1]

    def test_output_as_shown_is_accepted(self):
        self.assertEqual(self.complaints("$ annals", "one", "two", "three"), [])
        self.assertEqual(self.complaints("$ annals"), [])

    def test_wildcard_stands_for_any_lines(self):
        self.assertEqual(self.complaints("$ annals", "one", "…"), [])
        self.assertEqual(self.complaints("$ annals", "…", "three"), [])
        self.assertEqual(len(self.complaints("$ annals", "…", "four")), 1)

    def test_other_output_is_reported(self):
        self.assertEqual(len(self.complaints("$ annals", "one", "two")), 1)
        self.assertEqual(len(self.complaints("$ annals", "one", "two", "four")), 1)

    def test_wrong_exit_code_is_reported(self):
        self.assertEqual(len(self.complaints("$ annals 1")), 1)
        self.assertEqual(self.complaints("$ annals 1 # exit code 1"), [])
        self.assertEqual(len(self.complaints("$ annals # exit code 1")), 1)

    def test_command_that_nothing_tests_is_reported(self):
        self.assertEqual(len(self.complaints("curl example.org", language="sh")), 1)

    def test_ids_may_differ(self):
        self.assertEqual(self.complaints("$ echo 0123abcd", "89ef0123"), [])
        self.assertEqual(len(self.complaints("$ echo 0123abcd", "word")), 1)

    def test_commands_of_a_page_share_a_shell(self):
        self.assertEqual(self.complaints("$ cd / && name=x", "$ pwd; echo $name", "/", "x"), [])


class CheckLinks(unittest.TestCase):
    def test_dead_links_are_found(self):
        page = check_links.DOCS / "index.md"
        wrong = ["none.md", "KEEP.md#none", "../README.md", "https://github.com/annals-dev/annals/blob/main/none"]
        right = ["KEEP.md", "KEEP.md#systemd", "https://example.org/none", "https://github.com/annals-dev/annals/blob/main/README.md"]
        for target in wrong:
            self.assertIsNotNone(check_links.broken(page, target), target)
        for target in right:
            self.assertIsNone(check_links.broken(page, target), target)

    def test_dead_links_of_a_built_book_are_found(self):
        with tempfile.TemporaryDirectory() as folder:
            book = Path(folder)
            (book / "a.html").write_text('<h1 id="top"></h1><a href="b.html#x"></a><a href="c.html"></a><a href="#top"></a>')
            (book / "b.html").write_text('<h1 id="y"></h1>')
            self.assertEqual(len(list(check_links.check_book(book))), 2)

    def test_links_in_code_do_not_count(self):
        self.assertNotIn("](", check_links.prose("```\n[a](b)\n```\n`[c](d)`"))


class Settings(unittest.TestCase):
    def test_page_has_the_settings_that_the_code_documents(self):
        root = TOOLS.parent
        source = (root / "crates/annals-cli/src/config.rs").read_text()
        code = "\n".join(line[3:].removeprefix(" ") for line in source.split("\n") if line.startswith("//!"))
        page = (root / "docs/reference/config.md").read_text()
        block = re.compile(r"```toml\n(.*?)```", re.DOTALL)
        self.assertEqual(block.search(page).group(1), block.search(code).group(1))


if __name__ == "__main__":
    unittest.main()
