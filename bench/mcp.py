#!/usr/bin/env python3
"""Measures `annals mcp`: the answer to `initialize`, searches in a large history, and sizes of answers.

    bench/mcp.py --annals PROGRAM --corpus DIR [--state DIR] [--rounds N] [--queries]

DIR is a history of tools/gencorpus (1 GB for the targets). Builds its index first, in DIR/../state unless --state
names another directory. With --queries, prints the median times of each query. Times are wall time
from the request to the answer, and CPU time of the server.

Exit codes: 0 all targets met, 1 a target missed, 2 could not run.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

# Rare and frequent words of the generator, and conditions.
QUERIES = ["xylophonequartz", "\"needle phrase of annals\"", "error", "session cache", "\"for that\"", "role:user parser",
           "tool:Bash error", "kind:call config", "index OR cache", "-error commit", "xyl*", "conf*", "model:opus message",
           "merge branch scan", "role:assistant token", "ka lo"]


class Server:
    """A running server, asked one request at a time."""

    def __init__(self, annals, env, root):
        self.began = time.perf_counter()
        self.process = subprocess.Popen([str(annals), "--root", f"claude-code:{root}", "mcp", "--project", "/nowhere"],
                                        env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.count = 0
        about = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}}
        self.ask("initialize", about)
        self.initialized = time.perf_counter() - self.began
        self.cpu_of_start = self.cpu()
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def send(self, message):
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()

    def ask(self, method, params):
        self.count += 1
        self.send({"jsonrpc": "2.0", "id": self.count, "method": method, "params": params})
        while True:
            line = self.process.stdout.readline()
            answer = json.loads(line)
            if answer.get("id") == self.count:
                return answer["result"], len(line)

    def call(self, tool, **given):
        began = time.perf_counter()
        answer, _ = self.ask("tools/call", {"name": tool, "arguments": given})
        took = time.perf_counter() - began
        shown = json.dumps(answer.get("structuredContent"), ensure_ascii=False, separators=(",", ":"))
        text = "".join(part["text"] for part in answer["content"])
        return answer, took, len(shown.encode()) + len(text.encode())

    def cpu(self):
        """Returns the CPU seconds of the server so far, those of its ended threads included."""
        # The clock of another process (clock_getcpuclockid(3)).
        return time.clock_gettime((~self.process.pid << 3) | 2)

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--annals", type=Path, required=True)
    parser.add_argument("--corpus", type=Path, required=True)
    parser.add_argument("--state", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--queries", action="store_true")
    given = parser.parse_args()
    state = (given.state or given.corpus.resolve().parent / "state").resolve()
    env = {"PATH": os.environ["PATH"], "HOME": str(state), "ANNALS_STATE_DIR": str(state), "TZ": "UTC"}
    index = [given.annals, "--root", f"claude-code:{given.corpus}", "index", "build"]
    if subprocess.run(list(map(str, index)), env=env, stdout=subprocess.DEVNULL, check=False).returncode == 2:
        return 2

    starts, cpus = [], []
    for _ in range(15):
        server = Server(given.annals, env, given.corpus)
        starts.append(server.initialized)
        cpus.append(server.cpu_of_start)
        server.close()

    server = Server(given.annals, env, given.corpus)
    tools = server.ask("tools/list", {})[0]["tools"]
    listed = len(json.dumps({"tools": tools}, separators=(",", ":")).encode())
    server.call("search", query="warm up")
    time.sleep(1)
    times, cpu_times, sizes, hits, times_by_query = [], [], [], 0, {}
    for _ in range(given.rounds):
        for query in QUERIES:
            cpu = server.cpu()
            answer, took, size = server.call("search", query=query)
            cpu = server.cpu() - cpu
            cpu_times.append(cpu)
            assert not answer.get("isError"), answer
            hits += answer["structuredContent"]["total"] > 0
            times.append(took)
            times_by_query.setdefault(query, []).append((took, cpu))
            sizes.append(size)
    for query, took in times_by_query.items() if given.queries else ():
        wall, cpu = (1e3 * statistics.median(one) for one in zip(*took))
        print(f"{wall:>8.1f} ms, {cpu:>7.1f} ms of CPU  {query}")
    rows, _, size = server.call("sessions")
    sizes.append(size)
    session = rows["structuredContent"]["sessions"][0]["id"]
    for tool, options in [("outline", {"session": session}), ("read", {"id": session}), ("files", {"session": session}),
                          ("cost", {}), ("cost", {"by": "session", "top": 50}), ("sessions", {"limit": 100})]:
        sizes.append(server.call(tool, **options)[2])
    server.close()

    rows = [
        ("initialize, p50 of wall time, ms", 1e3 * statistics.median(starts), 30),
        ("initialize, fastest, ms", 1e3 * min(starts), None),
        ("initialize, mean of CPU, ms", 1e3 * statistics.mean(cpus), None),
        ("search, p50 of wall time, ms", 1e3 * statistics.median(times), 50),
        ("search, p95 of wall time, ms", 1e3 * statistics.quantiles(times, n=20)[-1], None),
        ("search, p50 of CPU, ms", 1e3 * statistics.median(cpu_times), None),
        ("search, mean of CPU, ms", 1e3 * statistics.mean(cpu_times), None),
        ("largest default answer, bytes", max(sizes), 8_000),
        ("tools/list, bytes", listed, 6_000),
    ]
    missed = False
    for name, found, target in rows:
        verdict = "" if target is None else f"≤ {target:<5} " + ("met" if found <= target else "MISSED")
        missed |= target is not None and found > target
        print(f"{name:<40} {found:>9.1f}  {verdict}")
    print(f"{len(times)} searches, {hits} with hits")
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
