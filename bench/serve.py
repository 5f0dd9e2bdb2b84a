#!/usr/bin/env python3
"""Measures `annals serve`, and beside it agentsview and claude-code-log on the same history.

    bench/serve.py PROGRAM CORPUS [--state DIR] [--rounds N] [--messages 100000] [--peers VENV] [--peer-corpus DIR]

CORPUS is a Claude Code root, such as tools/gencorpus/gencorpus.py writes; its index is built first. Times are wall time
from the request to the first byte of the answer, the least of the rounds, and CPU of all threads. `--peers` is a Python environment in which
agentsview and claude-code-log are installed (both are on PyPI); one that is missing is left out by name. They read
`--peer-corpus`, because they take minutes for 1 GB, and annals reads it too then.

Exit codes: 0 all targets met, 1 a target missed, 2 could not run.
"""
import argparse
import http.client
import json
import os
import re
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

TICK = os.sysconf("SC_CLK_TCK")
MISSED = []


def row(what, value, target=None, unit="ms"):
    """Prints a figure, and whether it meets a target."""
    verdict = ""
    if target is not None:
        verdict = "met" if value <= target else "MISSED"
        if value > target:
            MISSED.append(what)
    shown = f"≤ {target} {unit}" if target is not None else ""
    print(f"{what:<58} {value:10.1f} {unit:<4} {shown:<12} {verdict}", flush=True)


def cpu(pid):
    """CPU of all threads of a process, in milliseconds, as the scheduler counts it."""
    total = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        try:
            total += int((task / "schedstat").read_text().split()[0])
        except OSError:
            pass
    return total / 1e6


def memory(pid, field="VmRSS"):
    """Memory of a process, in megabytes."""
    return int(re.search(field + r":\s+(\d+)", Path(f"/proc/{pid}/status").read_text())[1]) / 1024


class Server:
    """A running `annals serve`."""

    def __init__(self, program, root, state):
        env = {**os.environ, "ANNALS_STATE_DIR": str(state), "TZ": "UTC"}
        began = time.perf_counter()
        self.process = subprocess.Popen([program, "--root", f"claude-code:{root}", "serve", "--json"],
                                        env=env, stdout=subprocess.PIPE, text=True)
        text = ""
        for line in self.process.stdout:
            text += line
            try:
                self.address = json.loads(text)
                break
            except ValueError:
                continue
        self.started = (time.perf_counter() - began) * 1000
        self.port = int(re.search(r":(\d+)/", self.address["api"])[1])
        self.headers = {"Authorization": f"Bearer {self.address['token']}"}

    def get(self, path):
        """Asks for a page: milliseconds to the first byte, CPU in milliseconds, and the body."""
        before = cpu(self.process.pid)
        client = http.client.HTTPConnection("127.0.0.1", self.port)
        began = time.perf_counter()
        client.request("GET", path, headers=self.headers)
        answer = client.getresponse()
        first = (time.perf_counter() - began) * 1000
        body = answer.read()
        client.close()
        if answer.status != 200:
            sys.exit(f"{path}: {answer.status} {body[:300]!r}")
        return first, cpu(self.process.pid) - before, body

    def least(self, path, rounds):
        answers = [self.get(path) for _ in range(rounds)]
        return min(answer[0] for answer in answers), min(answer[1] for answer in answers), answers[0][2]

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait()


def message(session, number, text, cwd):
    own = f"{number + 1:08x}-0000-4000-8000-000000000000"
    parent = f"{number:08x}-0000-4000-8000-000000000000" if number else None
    role = "user" if number % 2 == 0 else "assistant"
    said = {"role": role, "content": [{"type": "text", "text": text}]}
    if role == "assistant":
        said |= {"id": f"msg_{number}", "model": "claude-sonnet-4-5", "type": "message",
                 "usage": {"input_tokens": 1000, "output_tokens": 200}}
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    return json.dumps({"type": role, "uuid": own, "parentUuid": parent, "sessionId": session, "timestamp": now,
                       "cwd": cwd, "version": "2.1.325", "message": said}) + "\n"


def live_entry(server, place, log, first, rounds):
    """Milliseconds from the write of a line to its event."""
    client = socket.create_connection(("127.0.0.1", server.port))
    token = server.address["token"]
    client.sendall(f"GET /events?session={place} HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\n"
                   f"Authorization: Bearer {token}\r\n\r\n".encode())
    seen = b""
    while b"caught_up" not in seen:
        seen += client.recv(1 << 16)
    time.sleep(0.3)
    took = []
    for number in range(first, first + rounds):
        text = f"written {number}"
        began = time.perf_counter()
        with open(log, "a") as file:
            file.write(message(log.stem, number, text, "/home/me/long"))
        seen = b""
        while text.encode() not in seen:
            seen += client.recv(1 << 16)
        took.append((time.perf_counter() - began) * 1000)
        time.sleep(0.05)
    idle = cpu(server.process.pid)
    time.sleep(5)
    idle = cpu(server.process.pid) - idle
    client.close()
    return sorted(took)[len(took) // 2], max(took), idle


def build_index(program, root, state):
    env = {**os.environ, "ANNALS_STATE_DIR": str(state)}
    subprocess.run([program, "--root", f"claude-code:{root}", "index", "build"], env=env, stdout=subprocess.DEVNULL, check=True)


def measure(program, corpus, state, rounds):
    build_index(program, corpus, state)
    server = Server(program, corpus, state)
    row("start, until the address is printed", server.started)
    row("memory after the start", memory(server.process.pid), 25, "MB")
    listed = json.loads(server.get("/api/v1/sessions")[2])
    largest = max(range(len(listed["sessions"])), key=lambda at: listed["sessions"][at]["messages"])
    session = listed["addresses"][largest].removeprefix("/api/v1")
    for path, what, target in [("/", "overview", 40), ("/sessions", "100 of the sessions", 40),
                               (session, f"the end of {listed['sessions'][largest]['messages']} messages", 40),
                               (f"{session}/tree", "its tree", None), ("/search?q=error", "search: error", 60),
                               ("/search?q=p*", "search: p*", 60), ("/search?q=xylophonequartz", "search: a rare word", 60),
                               ("/cost", "cost by day", None), ("/watch", "watch", None)]:
        first, spent, body = server.least(path, rounds)
        row(f"first byte: {what}", first, target)
        row("  CPU", spent)
        if path == session:
            row("  page of 50 turns", len(body) / 1000, 200, "kB")
            assets = re.findall(rb'(?:src|href)="(/assets/[^"]+\.js)"', body)
            scripts = sum(len(server.get(asset.decode())[2]) for asset in assets)
            row("  its scripts", scripts / 1000, 20, "kB")
    idle = cpu(server.process.pid)
    time.sleep(5)
    row("idle for 5 s: CPU", cpu(server.process.pid) - idle, 1)
    row("memory after all pages", memory(server.process.pid), None, "MB")
    row("peak memory", memory(server.process.pid, "VmHWM"), None, "MB")
    server.end()


def measure_long(program, folder, messages, rounds):
    """A session of many messages, which grows."""
    root, state = folder / "long", folder / "state-long"
    log = root / "projects" / "-home-me-long" / "11111111-1111-4111-8111-111111111111.jsonl"
    log.parent.mkdir(parents=True)
    text = "The server closes the socket before the last chunk is written. " * 12
    with open(log, "w") as file:
        for number in range(messages):
            file.write(message(log.stem, number, f"message {number}: {text}", "/home/me/long"))
    build_index(program, root, state)
    server = Server(program, root, state)
    first, spent, _ = server.get(f"/s/0/{log.stem}")
    row(f"first byte: {messages:,} messages, first time", first)
    row("  CPU", spent)
    first, spent, _ = server.least(f"/s/0/{log.stem}", rounds)
    row(f"first byte: {messages:,} messages, held open", first, 40)
    row("  CPU", spent)
    median, most, idle = live_entry(server, f"0/{log.stem}", log, messages, 20)
    row("a new entry, until its event: median", median, 100)
    row("  slowest of 20", most)
    row("idle for 5 s with a page that follows: CPU", idle, 1)
    server.end()


# --- peers ----------------------------------------------------------------------------------


def spent_by_children():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (used.ru_utime + used.ru_stime) * 1000


def run_counted(command, env):
    """Runs a program: wall and CPU in milliseconds."""
    before, began = spent_by_children(), time.perf_counter()
    ran = subprocess.run(command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False)
    if ran.returncode:
        print(f"{command[0]} failed: {ran.stderr.decode(errors='replace')[-300:]}")
        return None
    return (time.perf_counter() - began) * 1000, spent_by_children() - before


def peer_home(folder, corpus):
    home = folder / "home"
    if not home.exists():
        home.mkdir()
        (home / ".claude").symlink_to(Path(corpus).resolve())
    # Nothing of the user, and no network beyond this machine.
    return {"PATH": os.environ["PATH"], "HOME": str(home), "TZ": "UTC", "AGENTSVIEW_NO_UPDATE_CHECK": "1", "DO_NOT_TRACK": "1"}


def measure_agentsview(program, folder, corpus, rounds):
    env = peer_home(folder, corpus) | {"AGENTSVIEW_DATA_DIR": str(folder / "agentsview")}
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    # In the foreground: the program's own way starts a server that goes on.
    server = subprocess.Popen([program, "serve", "--port", str(port), "--no-browser", "--no-update-check"], env=env,
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def get(path):
        client = http.client.HTTPConnection("127.0.0.1", port)
        began = time.perf_counter()
        client.request("GET", path)
        answer = client.getresponse()
        first = (time.perf_counter() - began) * 1000
        return first, answer.status, answer.read()

    try:
        deadline = time.monotonic() + 600
        spent, quiet = -1.0, 0
        # It reads everything first, and answers meanwhile.
        while time.monotonic() < deadline and quiet < 4:
            time.sleep(3)
            now = cpu(server.pid)
            quiet = quiet + 1 if now - spent < 20 else 0
            spent = now
        try:
            page = get("/")[2]
        except OSError:
            print("agentsview serve did not answer")
            return
        row("agentsview: CPU until everything is read", cpu(server.pid))
        row("agentsview: memory", memory(server.pid), None, "MB")
        row("agentsview: peak memory", memory(server.pid, "VmHWM"), None, "MB")
        assets = re.findall(rb'(?:src|href)="\.?(/?[^"]+\.js)"', page)
        size = sum(len(get("/" + asset.decode().lstrip("/"))[2]) for asset in assets)
        row("agentsview: scripts of its first page", size / 1000, None, "kB")
        for path, what in [("/api/v1/sessions?limit=100", "100 of the sessions"), ("/api/v1/search?q=error", "search: error")]:
            answers = [get(path) for _ in range(rounds)]
            if all(answer[1] == 200 for answer in answers):
                row(f"agentsview: first byte, {what}", min(answer[0] for answer in answers))
            else:
                print(f"agentsview: {path} answers {answers[0][1]}")
        idle = cpu(server.pid)
        time.sleep(5)
        row("agentsview: idle for 5 s: CPU", cpu(server.pid) - idle)
    finally:
        server.terminate()
        server.wait()


def measure_claude_code_log(program, folder, corpus):
    env = peer_home(folder, corpus)
    # It writes beside its input.
    copy = folder / "copy"
    shutil.copytree(Path(corpus) / "projects", copy)
    made = run_counted([program, "convert", str(copy), "--all-projects"], env)
    if made is None:
        return
    row("claude-code-log, all pages: CPU", made[1])
    pages = [path.stat().st_size for path in copy.rglob("*.html")]
    row("claude-code-log: size of all pages", sum(pages) / 1e6, None, "MB")
    row("claude-code-log: its largest page", max(pages, default=0) / 1000, None, "kB")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program")
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--state", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--messages", type=int, default=100_000)
    parser.add_argument("--peers", type=Path)
    parser.add_argument("--peer-corpus", type=Path)
    args = parser.parse_args()
    program = str(Path(args.program).resolve())
    if not (args.corpus / "projects").is_dir():
        print(f"{args.corpus} is no Claude Code root", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        measure(program, args.corpus, args.state or folder / "state", args.rounds)
        measure_long(program, folder, args.messages, args.rounds)
        if args.peers and args.peer_corpus:
            print(f"\n{args.peer_corpus}")
            state = folder / "state-peer"
            env = {**os.environ, "ANNALS_STATE_DIR": str(state)}
            indexed = run_counted([program, "--root", f"claude-code:{args.peer_corpus}", "index", "build"], env)
            if indexed:
                row("annals index build: CPU", indexed[1])
            measured = [("agentsview", lambda path: measure_agentsview(path, folder, args.peer_corpus, args.rounds)),
                        ("claude-code-log", lambda path: measure_claude_code_log(path, folder, args.peer_corpus))]
            measure(program, args.peer_corpus, state, args.rounds)
            for name, run in measured:
                path = args.peers / "bin" / name
                if path.exists():
                    run(str(path))
                else:
                    print(f"{name} is not installed")
    return 1 if MISSED else 0


if __name__ == "__main__":
    sys.exit(main())
