#!/usr/bin/env python3
"""Builds every package, installs it, and runs it from where it was installed. `./test --packages` runs this.

    packaging/test_packages.py [--program FILE] [--debug] [--no-verify] [NAME]...

NAME is one of source, crates, prefix, deb, wheel, npm, sbom; all if none is given. source follows the README in a new
clone of the last commit and prints how long each command took. --program is a program that is built already;
otherwise one is built with the profile dist. --debug builds the wheel and the Node package with the profile dev.
--no-verify does not compile the packed crates.

The Debian package is installed into a new Debian with mmdebstrap, which needs root and a mirror; otherwise it is only
unpacked. The rest is installed into an empty directory, with an empty home and no variable but PATH.
Exit codes: 0 all ran, 1 a package is wrong, 2 invalid arguments.
"""

import argparse
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
TARGET = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
SUITE = "bookworm"
skipped = []


class Failure(Exception):
    """A package is wrong."""


def run(*words, **options):
    """Runs a command and returns its output."""
    words = [str(word) for word in words]
    result = subprocess.run(words, capture_output=True, text=True, check=False, **options)
    if result.returncode:
        raise Failure(f"{' '.join(words)}: exit code {result.returncode}\n{result.stdout[-3000:]}{result.stderr[-3000:]}")
    return result.stdout


def skip(what):
    skipped.append(what)
    print(f"    SKIPPED {what}")


def require(condition, what):
    if not condition:
        raise Failure(what)


def clean_environment(home, path="/usr/bin:/bin"):
    return {"HOME": str(home), "PATH": path, "LANG": "C.UTF-8"}


def try_program(call, where):
    """Runs an installed program: `call` takes its arguments and returns its output."""
    require(re.fullmatch(r"annals \d+\.\d+\.\d+\n", call("--version")), f"{where}: --version")
    call("demo", "--keep", "/tmp/sample" if where == "chroot" else f"{where}/sample")
    root = "/tmp/sample" if where == "chroot" else f"{where}/sample"
    require("Flaky upload test" in call("sessions", "--root", root), f"{where}: sessions")
    require("1 session" in call("search", "flaky", "--root", root), f"{where}: search")
    require(call("cost", "--root", root, "--json").startswith("{"), f"{where}: cost")
    require("no errors found" in call("check", "--root", root), f"{where}: check")


def build_program(arguments):
    if arguments.program is None:
        print("    cargo build --profile dist", flush=True)
        run("cargo", "build", "--locked", "--profile", "dist", "-p", "annals-cli", cwd=ROOT)
        arguments.program = TARGET / "dist" / "annals"
    size = arguments.program.stat().st_size / 1e6
    needed = re.findall(r"GLIBC_(2\.\d+)", run("strings", "-a", arguments.program)) if shutil.which("strings") else []
    newest = max(needed, key=lambda it: int(it.split(".")[1]), default="unknown")
    print(f"    program: {size:.1f} MB, needs glibc {newest}")
    return arguments.program


def test_source(_arguments, scratch):
    """Runs the commands of the README that build annals, in a new clone, then those of the tutorials."""
    clone, home = scratch / "annals", scratch / "source-home"
    home.mkdir()
    run("git", "clone", "--quiet", ROOT, clone)
    # Where rustup and cargo are; everything else is new.
    own = pathlib.Path.home()
    environment = {
        **clean_environment(home, os.environ["PATH"]),
        "CARGO_HOME": os.environ.get("CARGO_HOME", str(own / ".cargo")),
        "RUSTUP_HOME": os.environ.get("RUSTUP_HOME", str(own / ".rustup")),
        "CARGO_INSTALL_ROOT": str(scratch / "installed"),
    }
    readme = (clone / "README.md").read_text(encoding="utf-8")
    for command in ("cargo run --release -- demo", "cargo install --locked --path crates/annals-cli"):
        require(f"\n{command}\n" in readme, f"the README does not say {command}")
        begin = time.monotonic()
        run("bash", "-c", command, cwd=clone, env=environment)
        print(f"    {command}: {time.monotonic() - begin:.0f} s", flush=True)
    annals = scratch / "installed/bin/annals"
    begin = time.monotonic()
    pages = [clone / "README.md", *sorted(clone.glob("docs/tutorials/*.md"))]
    run(sys.executable, "-B", clone / "tools/docs/run_examples.py", "--annals", annals, *pages, cwd=clone, env=environment)
    print(f"    the tutorials: {time.monotonic() - begin:.0f} s")


def test_crates(arguments, _scratch):
    """Packs every crate, and compiles each from its package."""
    words = ["cargo", "package", "--workspace", "--exclude", "annals-node", "--exclude", "annals-python", "--locked"]
    words += ["--allow-dirty"] + (["--no-verify"] if arguments.no_verify else [])
    run(*words, cwd=ROOT)
    for package in json.loads(run("cargo", "metadata", "--no-deps", "--format-version", "1", cwd=ROOT))["packages"]:
        name = package["name"]
        if name in ("annals-node", "annals-python"):
            continue
        for member in ("description", "license", "repository", "homepage", "readme", "keywords", "categories"):
            require(package[member], f"{name} has no {member}")
        packed = TARGET / "package" / f"{name}-{package['version']}.crate"
        files = run("tar", "-tzf", packed).split("\n")
        require(any(file.endswith("/README.md") for file in files), f"{name}: no README.md")
        require(not any(re.match(r"[^/]+/tests/", file) for file in files), f"{name}: has the integration tests")
        print(f"    {packed.name}: {packed.stat().st_size / 1000:.0f} kB, {len(files) - 1} files")


def test_prefix(arguments, scratch):
    """Installs with packaging/install.sh, runs the program, loads the completions and uninstalls."""
    program, prefix, home = build_program(arguments), scratch / "prefix", scratch / "home"
    home.mkdir()
    environment = {**clean_environment(home), "PREFIX": str(prefix)}
    run("sh", ROOT / "packaging/install.sh", "--program", program, env=environment, cwd=scratch)
    annals = prefix / "bin" / "annals"
    environment = clean_environment(home, f"{annals.parent}:/usr/bin:/bin")
    try_program(lambda *words: run(annals, *words, env=environment, cwd=home), home)
    pages = list((prefix / "share/man/man1").glob("*.1"))
    require(len(pages) > 40, f"only {len(pages)} manual pages")
    if shutil.which("man"):
        for page in pages:
            run("man", "--warnings", "-E", "UTF-8", "-l", page, env={**environment, "MANPAGER": "cat"})
    else:
        skip("manual pages are not rendered: man is not installed")
    share = prefix / "share"
    shells = {
        "bash": (["bash", "-n"], share / "bash-completion/completions/annals"),
        "zsh": (["zsh", "-n"], share / "zsh/site-functions/_annals"),
        "fish": (["fish", "--no-execute"], share / "fish/vendor_completions.d/annals.fish"),
        "nu": (["nu", "--no-config-file", "--commands"], share / "nushell/vendor/autoload/annals.nu"),
        "pwsh": (["pwsh", "-NoProfile", "-File"], share / "annals/annals.ps1"),
    }
    for shell, (words, script) in shells.items():
        require(script.stat().st_size > 100, f"{script} is empty")
        found = shutil.which(shell)
        if not found:
            skip(f"completions of {shell}: it is not installed")
        elif shell == "nu":
            run(found, *words[1:], f"source {script}; help annals sessions | ignore", env=environment)
        else:
            run(found, *words[1:], script, env=environment)
    if shutil.which("systemd-analyze"):
        units = [str(unit) for unit in (share / "systemd/user").iterdir()]
        run("systemd-analyze", "--user", "--man=no", "--recursive-errors=no", "verify", *units, env={**environment, "XDG_RUNTIME_DIR": str(home)})
    run("sh", ROOT / "packaging/install.sh", "--uninstall", env={**environment, "PREFIX": str(prefix)}, cwd=scratch)
    left = [path for path in prefix.rglob("*") if path.is_file()]
    require(not left, f"left after --uninstall: {left}")


def cargo_deb():
    """Returns an environment that has cargo-deb, or None."""
    if shutil.which("cargo-deb"):
        return dict(os.environ)
    tools = TARGET / "tools"
    try:
        run("cargo", "install", "--locked", "--quiet", "--root", tools, "cargo-deb", cwd=ROOT)
    except Failure:
        return None
    return {**os.environ, "PATH": f"{tools.resolve() / 'bin'}:{os.environ['PATH']}"}


def test_deb(arguments, scratch):
    """Makes the Debian package and installs it into a new Debian."""
    environment = cargo_deb()
    if environment is None:
        return skip("deb: cargo-deb is not installed and cannot be")
    program = build_program(arguments)
    run("sh", ROOT / "packaging/deb.sh", "--program", program, env=environment, cwd=ROOT)
    [package] = (TARGET / "debian").glob("annals_*.deb")
    files = run("dpkg-deb", "-c", package)
    for needed in (
        "./usr/bin/annals",
        "./usr/share/man/man1/annals-sessions.1.gz",
        "./usr/share/bash-completion/completions/annals",
        "./usr/lib/systemd/user/annals-keep.timer",
        "./usr/share/doc/annals/copyright",
    ):
        require(needed in files, f"{needed} is not in the package")
    require("/etc/" not in files and "default.target.wants" not in files, "the package enables something")
    print(f"    {package.name}: {package.stat().st_size / 1e6:.1f} MB, {run('dpkg-deb', '-f', package, 'Depends').strip()}")
    if os.geteuid() != 0 or not shutil.which("mmdebstrap"):
        skip("Debian package in a new Debian: needs root and mmdebstrap; it is unpacked into a directory")
        run("dpkg-deb", "-x", package, scratch / "unpacked")
        home = scratch / "deb-home"
        home.mkdir()
        annals = scratch / "unpacked/usr/bin/annals"
        return try_program(lambda *words: run(annals, *words, env=clean_environment(home), cwd=home), home)
    root = scratch / SUITE
    run("mmdebstrap", "--variant=essential", SUITE, root)
    shutil.copy(package, root / "tmp/annals.deb")
    chroot = ["chroot", root, "/usr/bin/env", "-i", "HOME=/root", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C.UTF-8"]
    run(*chroot, "dpkg", "--install", "/tmp/annals.deb")
    try_program(lambda *words: run(*chroot, "annals", *words), "chroot")
    run(*chroot, "dpkg", "--purge", "annals")
    require(not (root / "usr/bin/annals").exists(), "the program is left after purge")


def test_wheel(arguments, scratch):
    """Installs the wheel into a new environment and runs the guide's first example there."""
    tools, venv, home = scratch / "maturin", scratch / "venv", scratch / "wheel-home"
    run(sys.executable, "-m", "venv", tools)
    run(tools / "bin/pip", "install", "-q", "maturin>=1.16,<2")
    profile = "dev" if arguments.debug else "dist"
    run(tools / "bin/maturin", "build", "-q", "--locked", "--profile", profile, "-m", ROOT / "bindings/python/Cargo.toml", "-o", scratch / "wheels")
    [wheel] = (scratch / "wheels").glob("*.whl")
    run(sys.executable, "-m", "venv", venv)
    run(venv / "bin/pip", "install", "-q", "--no-index", wheel)
    home.mkdir()
    guide = (ROOT / "docs/PYTHON.md").read_text(encoding="utf-8")
    example = re.search(r"```python\n(.*?)```", guide, re.S).group(1) + "\nprint(len(store.sessions()))\n"
    out = run(venv / "bin/python", "-c", example, env=clean_environment(home), cwd=home)
    require(out == "1\n", f"the example of docs/PYTHON.md printed {out!r}")
    print(f"    {wheel.name}: {wheel.stat().st_size / 1e6:.1f} MB")


def test_npm(arguments, scratch):
    """Packs the Node package, installs it into an empty directory and runs the guide's first example there."""
    if not shutil.which("npm"):
        return skip("npm package: npm is not installed")
    profile = "dev" if arguments.debug else "dist"
    run("cargo", "build", "--locked", "--profile", profile, "-p", "annals-node", cwd=ROOT)
    source, empty = scratch / "node", scratch / "node-empty"
    shutil.copytree(ROOT / "bindings/node", source, ignore=shutil.ignore_patterns("node_modules", "annals.node"))
    folder = TARGET / ("debug" if arguments.debug else "dist")
    [library] = [it for it in (folder / "libannals_node.so", folder / "libannals_node.dylib") if it.exists()]
    shutil.copy(library, source / "annals.node")
    run("npm", "pack", "--silent", cwd=source)
    [packed] = source.glob("annals-*.tgz")
    empty.mkdir()
    (empty / "package.json").write_text('{"type": "module"}\n')
    run("npm", "install", "--no-audit", "--no-fund", "--offline", packed, cwd=empty, env={**os.environ, "HOME": str(empty)})
    guide = (ROOT / "docs/NODE.md").read_text(encoding="utf-8")
    example = re.search(r"```js\n(.*?)```", guide, re.S).group(1)
    (empty / "example.js").write_text(example)
    node = shutil.which("node")
    out = run(node, "example.js", cwd=empty, env=clean_environment(empty, f"{pathlib.Path(node).parent}:/usr/bin:/bin"))
    require("Fix the build" in out, f"the example of docs/NODE.md printed {out!r}")
    print(f"    {packed.name}: {packed.stat().st_size / 1e6:.1f} MB")


def test_sbom(_arguments, scratch):
    """Makes the bill of materials and checks it against the schema of CycloneDX."""
    text = run(sys.executable, ROOT / "packaging/sbom.py")
    document = json.loads(text)
    require(len(document["components"]) > 100, "the bill of materials is too short")
    without = [it["name"] for it in document["components"] if "licenses" not in it]
    require(not without, f"without a licence: {without}")
    print(f"    {len(document['components'])} components")
    venv = scratch / "cyclonedx"
    try:
        run(sys.executable, "-m", "venv", venv)
        run(venv / "bin/pip", "install", "-q", "cyclonedx-python-lib[json-validation]")
    except Failure:
        return skip("schema of the bill of materials: the validator cannot be installed from PyPI")
    check = (
        "import sys; from cyclonedx.schema import SchemaVersion; from cyclonedx.validation.json import JsonStrictValidator as V\n"
        "error = V(SchemaVersion.V1_6).validate_str(sys.stdin.read())\nsys.exit(str(error) if error else None)"
    )
    run(venv / "bin/python", "-c", check, input=text)


def main():
    tests = {name[5:]: test for name, test in globals().items() if name.startswith("test_")}
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--program", type=pathlib.Path)
    parser.add_argument("--debug", action="store_true")
    parser.add_argument("--no-verify", action="store_true")
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(tests))
    arguments = parser.parse_args()
    if unknown := set(arguments.names) - set(tests):
        parser.error(f"unknown: {', '.join(unknown)}")
    if arguments.program:
        arguments.program = arguments.program.resolve(strict=True)
    failed = 0
    for name in arguments.names or tests:
        begin = time.monotonic()
        print(f"==> {name}", flush=True)
        with tempfile.TemporaryDirectory(prefix="annals-packages-") as scratch:
            # Programs of the chroot run as other users, too.
            os.chmod(scratch, 0o755)
            try:
                tests[name](arguments, pathlib.Path(scratch))
                outcome = "ok"
            except Failure as failure:
                failed += 1
                outcome = f"FAILED: {failure}"
        print(f"<== {name} ({time.monotonic() - begin:.0f} s): {outcome}", flush=True)
    for what in skipped:
        print(f"SKIPPED {what}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
