"""The examples of docs/PYTHON.md run in order, in a home of their own."""

import re
from pathlib import Path

import pytest

GUIDE = Path(__file__).resolve().parents[3] / "docs" / "PYTHON.md"


@pytest.mark.skipif(not GUIDE.is_file(), reason="docs/PYTHON.md is not part of the package")
def test_the_examples_run(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("CLAUDE_CONFIG_DIR", raising=False)
    monkeypatch.setenv("ANNALS_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    examples = re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    assert len(examples) >= 5
    names = {}
    for example in examples:
        exec(compile(example, str(GUIDE), "exec"), names)
    assert len(names["store"].sessions()) == 3
