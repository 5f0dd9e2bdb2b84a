"""Every test has a home of its own."""

from pathlib import Path

import pytest

from annals_store import Root, Store


@pytest.fixture
def root(tmp_path: Path) -> Root:
    return Root("claude-code", tmp_path / "claude")


@pytest.fixture
def store(root: Root, tmp_path: Path) -> Store:
    return Store(root, state=tmp_path / "state", zone="UTC")
