#!/usr/bin/env python3
"""Prints the bill of materials of the program in the format CycloneDX 1.6: every crate that it is made of, on any system.

    packaging/sbom.py > annals.cdx.json

Versions and licences are those of `cargo metadata`, checksums those of Cargo.lock. The output of one commit is always
the same.
"""

import json
import pathlib
import re
import subprocess
import sys
import uuid

ROOT = pathlib.Path(__file__).resolve().parents[1]


def metadata():
    command = ["cargo", "metadata", "--locked", "--format-version", "1"]
    return json.loads(subprocess.run(command, cwd=ROOT, check=True, capture_output=True).stdout)


def checksums():
    """Returns the SHA-256 of each crate, by name and version."""
    text = (ROOT / "Cargo.lock").read_text(encoding="utf-8")
    found = re.findall(r'name = "([^"]+)"\nversion = "([^"]+)"\nsource = [^\n]+\nchecksum = "([0-9a-f]{64})"', text)
    return {(name, version): checksum for name, version, checksum in found}


def main():
    data = metadata()
    packages = {it["id"]: it for it in data["packages"]}
    nodes = {it["id"]: it for it in data["resolve"]["nodes"]}
    [program] = [it["id"] for it in data["packages"] if it["name"] == "annals-cli"]

    def dependencies(node):
        """Returns what a crate needs when it is compiled, its build script included."""
        return sorted(
            it["pkg"] for it in nodes[node]["deps"] if any(kind["kind"] in (None, "build") for kind in it["dep_kinds"])
        )

    reached, pending = {program}, [program]
    while pending:
        for dependency in dependencies(pending.pop()):
            if dependency not in reached:
                reached.add(dependency)
                pending.append(dependency)
    sums = checksums()

    def reference(node):
        return f"pkg:cargo/{packages[node]['name']}@{packages[node]['version']}"

    def component(node):
        package = packages[node]
        row = {
            "type": "application" if node == program else "library",
            "bom-ref": reference(node),
            "name": package["name"],
            "version": package["version"],
            "purl": reference(node),
        }
        if package["license"]:
            row["licenses"] = [{"expression": package["license"].replace("/", " OR ")}]
        checksum = sums.get((package["name"], package["version"]))
        if checksum:
            row["hashes"] = [{"alg": "SHA-256", "content": checksum}]
        return row

    rest = sorted(reached - {program}, key=reference)
    document = {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": component(program)},
        "components": [component(it) for it in rest],
        "dependencies": [
            {"ref": reference(it), "dependsOn": sorted(reference(to) for to in dependencies(it))}
            for it in [program, *rest]
        ],
    }
    lock = (ROOT / "Cargo.lock").read_text(encoding="utf-8")
    document["serialNumber"] = uuid.uuid5(uuid.NAMESPACE_URL, lock).urn
    json.dump(document, sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
