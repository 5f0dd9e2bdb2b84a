#!/usr/bin/env python3
"""Measures `annals browse` on a terminal of its own: CPU and wall time from a key to the screen, and memory.

    bench/browse.py PROGRAM CORPUS [--messages 100000] [--state DIR]

CORPUS is a Claude Code root, such as tools/gencorpus/gencorpus.py writes. CPU is user and system time of
all threads, read from /proc. A second root with one long session is written to a temporary directory.
"""

import argparse
import fcntl
import json
import os
import pathlib
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time

TICK = os.sysconf("SC_CLK_TCK")


class Browser:
    """The program on a pseudo-terminal of 120 x 40."""

    def __init__(self, program, root, state, *words):
        self.begin = time.monotonic()
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            env = {**os.environ, "TERM": "xterm-256color", "ANNALS_STATE_DIR": state, "TZ": "UTC"}
            os.execvpe(program, [program, "--root", f"claude-code:{root}", "browse", "--read-only", *words], env)
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
        self.seen = b""

    def cpu(self):
        fields = pathlib.Path(f"/proc/{self.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / TICK * 1000

    def schedstat(self):
        """CPU of all threads in milliseconds, from the scheduler: finer than the ticks of stat."""
        total = 0
        for task in pathlib.Path(f"/proc/{self.pid}/task").iterdir():
            total += int((task / "schedstat").read_text().split()[0])
        return total / 1e6

    def peak(self):
        status = pathlib.Path(f"/proc/{self.pid}/status").read_text()
        return int(re.search(r"VmHWM:\s+(\d+)", status)[1]) / 1024

    def wait_for(self, pattern, patience=120):
        """Reads until the pattern was written; returns the milliseconds."""
        begin, end = time.monotonic(), time.monotonic() + patience
        while not re.search(pattern, re.sub(rb"\x1b\[[0-9;?]*[A-Za-z]", b"", self.seen)):
            if time.monotonic() > end:
                sys.exit(f"{pattern!r} was not shown: {self.seen[-2000:]!r}")
            if select.select([self.fd], [], [], 0.5)[0]:
                self.seen += os.read(self.fd, 1 << 16)
        return (time.monotonic() - begin) * 1000

    def quiet(self, silence=0.4):
        """Reads until nothing was written for a while."""
        while select.select([self.fd], [], [], silence)[0]:
            self.seen += os.read(self.fd, 1 << 16)

    def press(self, keys):
        self.seen = b""
        os.write(self.fd, keys.encode())

    def end(self):
        os.kill(self.pid, signal.SIGTERM)
        try:
            while os.read(self.fd, 1 << 16):
                pass
        except OSError:
            pass
        os.waitpid(self.pid, 0)


def long_session(root, messages):
    """Writes one session with many messages."""
    folder = root / "projects" / "-home-me-long"
    folder.mkdir(parents=True)
    parent = None
    text = "The server closes the socket before the last chunk is written. " * 12
    with open(folder / "11111111-1111-4111-8111-111111111111.jsonl", "w") as log:
        for number in range(messages):
            own = f"{number:08x}-0000-4000-8000-000000000000"
            role = "user" if number % 2 == 0 else "assistant"
            message = {"role": role, "content": [{"type": "text", "text": f"message {number}: {text}"}]}
            if role == "assistant":
                message |= {"id": f"msg_{number}", "model": "claude-sonnet-4-5", "type": "message",
                            "usage": {"input_tokens": 1000, "output_tokens": 200}}
            log.write(json.dumps({
                "type": role, "uuid": own, "parentUuid": parent, "sessionId": "11111111-1111-4111-8111-111111111111",
                "timestamp": f"2026-11-{1 + number * 17 // messages:02}T{number % 24:02}:00:00Z", "cwd": "/home/me/long",
                "version": "2.1.325", "message": message,
            }) + "\n")
            parent = own


def row(what, wall, cpu, more=""):
    print(f"{what:<44} {wall:8.0f} ms  {cpu:8.1f} ms CPU  {more}", flush=True)


def measure(browser, what, keys):
    """Presses keys: until the first bytes of a frame, and until nothing changes any more."""
    before, begin = browser.schedstat(), time.monotonic()
    browser.press(keys)
    select.select([browser.fd], [], [], 60)
    wall, cpu = (time.monotonic() - begin) * 1000, browser.schedstat() - before
    browser.quiet()
    row(what, wall, cpu, f"{browser.schedstat() - before:.1f} until quiet")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("corpus")
    parser.add_argument("--messages", type=int, default=100_000)
    parser.add_argument("--state", help="state directory that has an index of CORPUS")
    args = parser.parse_args()
    program = str(pathlib.Path(args.program).resolve())
    with tempfile.TemporaryDirectory() as temporary:
        temporary = pathlib.Path(temporary)
        state = args.state or str(temporary / "state")
        env = {**os.environ, "ANNALS_STATE_DIR": state}
        subprocess.run([program, "--root", f"claude-code:{args.corpus}", "index", "build"], env=env, stdout=subprocess.DEVNULL)
        browser = Browser(program, args.corpus, state)
        wall = browser.wait_for(rb"[0-9] sessions")
        row("first rows", wall, browser.schedstat())
        browser.quiet(1.0)
        row("all rows and preview", 0, browser.schedstat(), f"peak {browser.peak():.0f} MB")
        for key, what in [("e", "letter 1"), ("r", "letter 2"), ("r", "letter 3: first hits of `err`"), ("or", "`error`")]:
            measure(browser, what, key)
        measure(browser, "next row, with preview", "\x1b[B")
        browser.quiet(3.0)
        idle = browser.schedstat()
        time.sleep(3)
        row("idle for 3 s", 3000, browser.schedstat() - idle)
        browser.end()

        root = temporary / "long"
        long_session(root, args.messages)
        state = str(temporary / "state-long")
        env["ANNALS_STATE_DIR"] = state
        subprocess.run([program, "--root", f"claude-code:{root}", "index", "build"], env=env, stdout=subprocess.DEVNULL)
        browser = Browser(program, root, state)
        browser.wait_for(rb"[0-9] session")
        browser.quiet(1.0)
        size = f"of {args.messages:,}".encode()
        before = browser.schedstat()
        browser.press("\r")
        # The footer says that the rest is read when the end is shown.
        row(f"end of {args.messages:,} messages", browser.wait_for(rb"reading"), browser.schedstat() - before)
        row("whole", browser.wait_for(size), browser.schedstat() - before, f"peak {browser.peak():.0f} MB")
        browser.quiet()
        for keys, what in [("\x1b[5~" * 20, "20 pages up"), ("g", "to the beginning"), ("j" * 50, "50 lines down")]:
            before = browser.schedstat()
            browser.press(keys)
            browser.quiet()
            row(what, 0, browser.schedstat() - before, f"peak {browser.peak():.0f} MB")
        browser.end()


main()
