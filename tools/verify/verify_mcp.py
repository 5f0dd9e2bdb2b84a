#!/usr/bin/env python3
"""Asks `annals mcp` with the official Python client of the protocol (PyPI `mcp`).

    verify_mcp.py [--annals PROGRAM] [--venv FOLDER]

Installs the client into a virtual environment if needed, copies a fixture to a private home, starts the server
on it, and checks: `tools/list` is crates/annals-mcp/src/tools.json, every tool answers with rows and text
that fit the budget, an error is a result, a resource is Markdown, and the answer to `initialize` is fast.

Exit codes: 0 all as expected, 1 something differs, 2 could not run, 3 the client could not be installed.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parent.parent
TOOLS = REPOSITORY / "crates" / "annals-mcp" / "src" / "tools.json"
CLIENT = "mcp==2.3.0"


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--annals", type=Path, default=REPOSITORY / "target" / "debug" / "annals")
    parser.add_argument("--venv", type=Path, help="folder of the virtual environment, made if missing")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


def python_with_client(folder):
    """Returns the interpreter of a virtual environment with the client, or None."""
    python = folder / "bin" / "python"
    if not python.exists():
        venv.create(folder, with_pip=True)
    known = subprocess.run([python, "-c", "import mcp"], capture_output=True, check=False)
    if known.returncode == 0:
        return python
    install = [python, "-m", "pip", "install", "--quiet", CLIENT]
    installed = subprocess.run(install, capture_output=True, text=True, check=False)
    if installed.returncode != 0:
        print(installed.stderr[-500:], file=sys.stderr)
        return None
    return python


def sample_history(annals, folder):
    """Makes a sample history and returns the environment that finds it."""
    env = {"HOME": str(folder), "PATH": os.environ["PATH"], "TZ": "UTC",
           "ANNALS_STATE_DIR": str(folder / "state")}
    root = folder / ".claude" / "projects" / "-home-me-app"
    root.mkdir(parents=True)
    fixture = REPOSITORY / "fixtures" / "claude-code" / "branch-edited-prompt"
    for log in fixture.rglob("*.jsonl"):
        (root / log.name).write_bytes(log.read_bytes())
    if not any(root.iterdir()):
        sys.exit(2)
    subprocess.run([annals, "index", "build"], env=env, capture_output=True, check=False)
    return env


async def ask(annals, env):
    """Returns what differs from the expectation."""
    from mcp import ClientSession, StdioServerParameters
    from mcp.client.stdio import stdio_client

    wrong = []

    def expect(what, found):
        print(("ok    " if found else "WRONG ") + what)
        if not found:
            wrong.append(what)

    server = StdioServerParameters(command=str(annals), args=["mcp"], env=env)
    async with stdio_client(server) as (read, write), ClientSession(read, write) as client:
        about = await client.initialize()
        expect("instructions name evidence", "evidence" in (about.instructions or ""))
        tools = await client.list_tools()
        found = [tool.model_dump(by_alias=True, exclude_none=True) for tool in tools.tools]
        expect("tools/list is the file", found == json.loads(TOOLS.read_text())["tools"])

        async def call(name, **given):
            return (await client.call_tool(name, given)).model_dump(by_alias=True)

        sessions = await call("sessions")
        rows = sessions["structuredContent"]["sessions"]
        expect("sessions has rows", len(rows) > 0)
        session = rows[0]["id"]
        for name, given in [("search", {"query": "question", "include_live": True}),
                            ("outline", {"session": session}), ("read", {"id": session}),
                            ("files", {"session": session}), ("cost", {"by": "model"})]:
            answer = await call(name, **given)
            text = answer["content"][0]["text"]
            size = len(json.dumps(answer["structuredContent"], ensure_ascii=False,
                                  separators=(",", ":")).encode()) + len(text.encode())
            expect(f"{name} answers in {size} bytes",
                   not answer.get("isError") and "evidence" in text and size <= 8000)
        missing = await call("outline", session="ffffffff")
        expect("an error is a result", missing["isError"] is True)
        resource = await client.read_resource(f"annals://{session}")
        expect("a resource is Markdown", "question" in resource.contents[0].text)
    return wrong


def initialize_time(annals, env):
    """Returns the milliseconds from the start of the server to its answer, the best of five."""
    request = {"jsonrpc": "2.0", "id": 1, "method": "initialize",
               "params": {"protocolVersion": "2025-11-25", "capabilities": {},
                          "clientInfo": {"name": "t", "version": "1"}}}
    best = float("inf")
    for _ in range(5):
        begin = time.perf_counter()
        with subprocess.Popen([annals, "mcp"], env=env, stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE) as server:
            server.stdin.write(json.dumps(request).encode() + b"\n")
            server.stdin.flush()
            server.stdout.readline()
            best = min(best, time.perf_counter() - begin)
            server.stdin.close()
    return best * 1000


def main():
    given = arguments()
    annals = given.annals.resolve()
    if not annals.exists():
        print(f"{annals} does not exist; build it with cargo build", file=sys.stderr)
        return 2
    if not given.inside:
        cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
        python = python_with_client(given.venv or cache / "annals-verify-mcp")
        if python is None:
            print(f"{CLIENT} cannot be installed", file=sys.stderr)
            return 3
        return subprocess.run([python, "-B", __file__, "--inside", "--annals", annals],
                              check=False).returncode
    import asyncio
    with tempfile.TemporaryDirectory() as folder:
        env = sample_history(annals, Path(folder))
        wrong = asyncio.run(ask(annals, env))
        print(f"initialize answered in {initialize_time(annals, env):.1f} ms")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
