#!/usr/bin/env python3
"""Runs what `annals mcp --install AGENT` prints, with the real agents, and asks each for its servers and skills.

    verify_mcp_install.py [--annals PROGRAM] [--packages DIR] [AGENT...]

Installs each agent from npm below DIR (the user's cache folder unless given), runs the printed lines in a private home, and
lists its servers: most agents start the server for that and say whether it answered. Agents that list skills must
list the skill, too.

Exit codes: 0 all as expected, 1 something differs, 2 could not run.
"""
import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

sys.dont_write_bytecode = True
HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parent.parent
sys.path[:0] = [str(HERE), str(HERE.parent / "resume-oracle")]
import resume_oracle  # noqa: E402

# Package, the command that lists servers, what it prints of a server that answered (or is configured, if the agent does not
# start it), and the command that lists skills.
AGENTS = {
    "claude-code": ("@anthropic-ai/claude-code", "claude mcp list", r"annals: annals mcp - \S+ Connected", None),
    "codex": ("@openai/codex", "codex mcp list", r"annals +annals +mcp .* enabled", None),
    "gemini": ("@google/gemini-cli", "gemini mcp list", r"annals: annals mcp \(stdio\) - Connected", "gemini skills list"),
    "opencode": ("opencode-ai", "opencode mcp list", r"annals .*connected", "opencode debug skill"),
    "qwen": ("@qwen-code/qwen-code", "qwen mcp list", r"annals: annals mcp \(stdio\) - Connected", None),
    "copilot": ("@github/copilot", "copilot mcp list", r"annals \(local\)", "copilot skill list"),
    "droid": ("droid", "droid mcp list", r"annals +stdio +connected", None),
    "cline": ("cline", "cat .cline/data/settings/cline_mcp_settings.json", r'"annals"', None),
}


def installed(packages, name, package):
    """Returns the folder of an agent's programs."""
    prefix = packages / re.sub(r"[/@]", "_", package)
    prefix.mkdir(parents=True, exist_ok=True)
    with resume_oracle.exclusive_lock(prefix / ".install-lock"):
        if not (prefix / "node_modules" / ".bin").exists():
            resume_oracle.npm_install(prefix, package)
    return prefix / "node_modules" / ".bin"


def check(annals, packages, name):
    """Returns what differs for an agent."""
    package, servers, answered, skills = AGENTS[name]
    programs = installed(packages, name, package)
    with tempfile.TemporaryDirectory() as home:
        home = Path(home)
        (home / "bin").mkdir()
        (home / "bin" / "annals").symlink_to(annals)
        work = home / "work"
        work.mkdir()
        # Gemini CLI starts no server in a folder that is not trusted.
        (home / ".gemini").mkdir()
        (home / ".gemini" / "trustedFolders.json").write_text(json.dumps({str(work): "TRUST_FOLDER"}))
        env = {"HOME": str(home), "PATH": f"{home / 'bin'}:{programs}:{os.environ['PATH']}", "TERM": "dumb", "TZ": "UTC"}

        def run(command, cwd=work):
            ran = subprocess.run(command, shell=True, cwd=cwd, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                 stderr=subprocess.STDOUT, text=True, timeout=180, check=False)
            return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", ran.stdout)

        printed = run(f"annals mcp --install {name}")
        said = run(f"set -e\n{printed}")
        listed = run(servers, home if servers.startswith("cat ") else work)
        if not re.search(answered, listed):
            yield f"{servers}: {listed[-600:]}\nafter: {printed}{said[-600:]}"
        if "SKILL.md" in printed and not list(home.glob(".*/skills/annals/SKILL.md")):
            yield f"no skill was written:\n{printed}{said[-600:]}"
        if skills:
            listed = run(skills)
            if "past agent sessions" not in listed:
                yield f"{skills}: {listed[-600:]}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--annals", type=Path, default=REPOSITORY / "target" / "debug" / "annals")
    parser.add_argument("--packages", type=Path, default=resume_oracle.oracle_home() / "agents")
    parser.add_argument("agents", nargs="*", metavar="AGENT", choices=[[], *AGENTS])
    given = parser.parse_args()
    annals = given.annals.resolve()
    if not annals.exists():
        print(f"{annals} does not exist; build it with cargo build", file=sys.stderr)
        return 2
    wrong = 0
    for name in given.agents or AGENTS:
        try:
            found = list(check(annals, given.packages, name))
        except (resume_oracle.OracleError, subprocess.TimeoutExpired) as error:
            print(f"{name}: {error}", file=sys.stderr)
            return 2
        wrong += bool(found)
        print(("WRONG " if found else "ok    ") + name)
        for one in found:
            print(f"      {one}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
