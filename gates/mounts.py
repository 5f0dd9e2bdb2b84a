"""File systems for the gates: tmpfs, or an image on a loop device. Needs root."""

import os
import shutil
import subprocess
import tempfile
from contextlib import contextmanager
from pathlib import Path

MAKERS = {
    "ext4": (["mkfs.ext4", "-q", "-F"], "e2fsprogs"),
    "xfs": (["mkfs.xfs", "-q", "-f"], "xfsprogs"),
    "btrfs": (["mkfs.btrfs", "-q", "-f"], "btrfs-progs"),
}


@contextmanager
def mounted(kind, size):
    """Yields a directory on a new file system, or the reason why there is none."""
    name = kind.split()[0]
    if os.geteuid() != 0:
        yield "not root"
        return
    if name != "tmpfs" and not _have(name):
        yield f"{MAKERS[name][0][0]} is not installed (package {MAKERS[name][1]})"
        return
    base = Path(tempfile.mkdtemp(prefix="annals-mount-"))
    place = base / "place"
    place.mkdir()
    try:
        if name == "tmpfs":
            _run("mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(place))
        else:
            image = base / "image"
            _run("truncate", "-s", size, str(image))
            _run(*MAKERS[name][0], str(image))
            _run("mount", "-t", name, "-o", "loop", str(image), str(place))
        if kind == "btrfs quota":
            _run("btrfs", "quota", "enable", str(place))
            _run("btrfs", "subvolume", "create", str(place / "sub"))
            _run("btrfs", "qgroup", "limit", "4M", str(place / "sub"))
    except subprocess.CalledProcessError as error:
        why = (error.stderr or b"").decode().strip().splitlines()
        _release(place, base)
        yield f"cannot be mounted: {why[-1] if why else error}"
        return
    try:
        yield place / "sub" if kind == "btrfs quota" else place
    finally:
        _release(place, base)


def _have(name):
    maker, package = MAKERS[name][0][0], MAKERS[name][1]
    if shutil.which(maker) is None and shutil.which("apt-get"):
        subprocess.run(["apt-get", "install", "-y", "-qq", package], capture_output=True, check=False)
    return shutil.which(maker) is not None


def _run(*command):
    subprocess.run(command, check=True, capture_output=True)


def _release(place, base):
    subprocess.run(["umount", str(place)], capture_output=True, check=False)
    shutil.rmtree(base, ignore_errors=True)
