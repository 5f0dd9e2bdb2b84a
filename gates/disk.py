"""A file system in memory that can lose power.

It replays the calls of a recorded run. After a crash, any combination of unsynced changes may be
missing: single writes of a file, whole or in part, and single changes of directories. Syncing a
file saves its bytes, not its name; syncing a directory saves the names in it; a rename is one
change, saved with either of its directories. This is what POSIX permits, and more than ext4, xfs or
btrfs lose.
"""

import codecs
import os
import re
from dataclasses import dataclass, field
from pathlib import PurePosixPath

CALLS = (
    "open,openat,creat,close,dup,dup2,dup3,fcntl,lseek,read,pread64,write,pwrite64,writev,pwritev,"
    "ftruncate,truncate,fallocate,copy_file_range,sendfile,rename,renameat,renameat2,link,linkat,"
    "unlink,unlinkat,rmdir,mkdir,mkdirat,symlink,symlinkat,fsync,fdatasync,sync,syncfs,ioctl"
)
RECORD = ("strace", "-f", "-qq", "-x", "-y", "-s", "100000000", "-e", f"trace={CALLS}", "-o")

LINE = re.compile(r"^(\d+)\s+(.*)$")
RESUMED = re.compile(r"^<\.\.\. (\w+) resumed>(.*)$")
WHOLE = re.compile(r"^(\w+)\((.*)\)\s+= (-?\d+)(?:<[^>]*>(?:\(deleted\))?)?(?: .*)?$", re.DOTALL)
STRING = re.compile(r'^"((?:[^"\\]|\\.)*)"')


@dataclass
class Node:
    """A file or a directory: its first content, and the writes since."""

    directory: bool
    base: bytes = b""
    # Writes: (moment, offset, bytes), or (moment, length, None) for a new length.
    writes: list = field(default_factory=list)
    # The last moment whose bytes are synced.
    synced: int = -1
    size: int = 0


@dataclass
class Change:
    """A change of directory entries at one moment: each name gets a node, or none."""

    moment: int
    names: tuple
    # The directories whose sync saves it.
    within: tuple
    saved: int | None = None


class Disk:
    """The changes that a run made to a tree, which can be cut off at any moment."""

    def __init__(self, base, before, directories):
        self.base = base
        self.now = -1
        self.root = Node(True)
        # Directory entries by (directory, name).
        self.first = {}
        self.names = {}
        self.nodes = [self.root]
        self.changes = []
        self.handles = {}
        self.answers = []
        self.doomed = set()
        for path in sorted(directories):
            self._lay(path, Node(True))
        for path, content in before.items():
            self._lay(path, Node(False, base=content, size=len(content)))
        self.names = dict(self.first)

    def _lay(self, path, node):
        at = self.root
        *folders, name = PurePosixPath(path).parts
        for folder in folders:
            key = (id(at), folder)
            if key not in self.first:
                self.first[key] = Node(True)
                self.nodes.append(self.first[key])
            at = self.first[key]
        if (id(at), name) not in self.first:
            self.first[id(at), name] = node
            self.nodes.append(node)

    # Replay

    def replay(self, trace):
        """Applies the calls of a recorded run, one moment each."""
        waiting = {}
        for line in trace.splitlines():
            found = LINE.match(line)
            if not found:
                continue
            thread, text = found.groups()
            resumed = RESUMED.match(text)
            if resumed and thread in waiting:
                text = waiting.pop(thread) + resumed.group(2)
            elif text.endswith("<unfinished ...>"):
                waiting[thread] = text.removesuffix("<unfinished ...>").rstrip()
                continue
            whole = WHOLE.match(text)
            if not whole:
                continue
            name, args, result = whole.group(1), whole.group(2), int(whole.group(3))
            if result >= 0:
                self.now += 1
                self._call(name, split(args), result)
            elif name in ("fsync", "fdatasync"):
                self._doom(split(args))
            elif name in ("syncfs", "sync"):
                self._doom_all()

    def _call(self, name, args, result):
        act = getattr(self, f"_{name}", None)
        if act is not None:
            act(args, result)

    def _find(self, path):
        """Returns the directory and the name of a path, if it is in the tree."""
        if not path.startswith(self.base):
            return None
        parts = PurePosixPath(path[len(self.base) :].lstrip("/")).parts
        at = self.root
        for part in parts[:-1]:
            at = self.names.get((id(at), part))
            if at is None:
                return None
        return (at, parts[-1] if parts else "")

    def _node(self, path):
        found = self._find(path)
        if found is None:
            return None
        at, name = found
        return at if name == "" else self.names.get((id(at), name))

    def _path(self, args, at):
        """Returns the absolute path of two arguments: a directory and a name in it."""
        return absolute(args[at], args[at + 1])

    def _change(self, names, within):
        for directory, name, node in names:
            if node is None:
                self.names.pop((id(directory), name), None)
            else:
                self.names[id(directory), name] = node
        self.changes.append(Change(self.now, tuple(names), tuple(map(id, within))))

    def _opened(self, path, flags, result):
        found = self._find(path)
        if found is None:
            self.handles.pop(result, None)
            return
        node = self._node(path)
        if node is None and "O_CREAT" in flags:
            node = Node(False)
            self.nodes.append(node)
            directory, name = found
            self._change([(directory, name, node)], [directory])
        elif node is None:
            self.handles.pop(result, None)
            return
        elif "O_TRUNC" in flags and node.size:
            node.writes.append((self.now, 0, None))
            node.size = 0
        self.handles[result] = [node, 0, "O_APPEND" in flags]

    def _openat(self, args, result):
        self._opened(self._path(args, 0), args[2], result)

    def _open(self, args, result):
        self._opened(absolute("AT_FDCWD", args[0]), args[1], result)

    def _creat(self, args, result):
        self._opened(absolute("AT_FDCWD", args[0]), "O_CREAT|O_TRUNC", result)

    def _close(self, args, result):
        self.handles.pop(number(args[0]), None)

    def _dup(self, args, result):
        if number(args[0]) in self.handles:
            self.handles[result] = self.handles[number(args[0])]

    _dup2 = _dup3 = _dup

    def _fcntl(self, args, result):
        if args[1].startswith("F_DUPFD"):
            self._dup(args, result)

    def _lseek(self, args, result):
        handle = self.handles.get(number(args[0]))
        if handle:
            handle[1] = result

    def _read(self, args, result):
        handle = self.handles.get(number(args[0]))
        if handle:
            handle[1] += result

    def _put(self, fd, content, at=None):
        handle = self.handles.get(fd)
        if handle is None:
            if fd == 1 and content:
                self.answers.append(self.now)
            return
        node = handle[0]
        offset = node.size if handle[2] else handle[1] if at is None else at
        node.writes.append((self.now, offset, content))
        node.size = max(node.size, offset + len(content))
        if at is None:
            handle[1] = offset + len(content)

    def _write(self, args, result):
        self._put(number(args[0]), text(args[1])[:result])

    def _pwrite64(self, args, result):
        self._put(number(args[0]), text(args[1])[:result], int(args[3]))

    def _writev(self, args, result):
        parts = re.findall(r'iov_base="((?:[^"\\]|\\.)*)"', args[1])
        content = b"".join(text(f'"{part}"') for part in parts)
        self._put(number(args[0]), content[:result])

    def _copied(self, source, target, result, at=None):
        handle = self.handles.get(source)
        if handle is None:
            raise RuntimeError("a copy from outside of the tree cannot be replayed")
        offset = handle[1] if at is None else at
        content = self.content(handle[0], lambda moment: True)[offset : offset + result]
        if at is None:
            handle[1] += result
        if result:
            self._put(target, content)

    def _copy_file_range(self, args, result):
        at = None if args[1] == "NULL" else int(re.sub(r"\D", "", args[1].split("=>")[0]))
        self._copied(number(args[0]), number(args[2]), result, at)

    def _sendfile(self, args, result):
        at = None if args[2] == "NULL" else int(re.sub(r"\D", "", args[2].split("=>")[0]))
        self._copied(number(args[1]), number(args[0]), result, at)

    def _ioctl(self, args, result):
        if "FICLONE" in args[1]:
            source = self.handles.get(number(args[2]))
            self._put(number(args[0]), self.content(source[0], lambda moment: True), 0)

    def _ftruncate(self, args, result):
        handle = self.handles.get(number(args[0]))
        if handle:
            handle[0].writes.append((self.now, int(args[1]), None))
            handle[0].size = int(args[1])

    def _renamed(self, old, new):
        source, target = self._find(old), self._find(new)
        if source is None or target is None:
            return
        node = self._node(old)
        names = [(source[0], source[1], None), (target[0], target[1], node)]
        self._change(names, [source[0], target[0]])

    def _rename(self, args, result):
        self._renamed(absolute("AT_FDCWD", args[0]), absolute("AT_FDCWD", args[1]))

    def _renameat(self, args, result):
        self._renamed(self._path(args, 0), self._path(args, 2))

    _renameat2 = _renameat

    def _linked(self, old, new):
        target = self._find(new)
        node = self._node(old)
        if target and node:
            self._change([(target[0], target[1], node)], [target[0]])

    def _link(self, args, result):
        self._linked(absolute("AT_FDCWD", args[0]), absolute("AT_FDCWD", args[1]))

    def _linkat(self, args, result):
        self._linked(self._path(args, 0), self._path(args, 2))

    def _removed(self, path):
        found = self._find(path)
        if found:
            self._change([(found[0], found[1], None)], [found[0]])

    def _unlink(self, args, result):
        self._removed(absolute("AT_FDCWD", args[0]))

    _rmdir = _unlink

    def _unlinkat(self, args, result):
        self._removed(self._path(args, 0))

    def _made(self, path):
        found = self._find(path)
        if found:
            node = Node(True)
            self.nodes.append(node)
            self._change([(found[0], found[1], node)], [found[0]])

    def _mkdir(self, args, result):
        self._made(absolute("AT_FDCWD", args[0]))

    def _mkdirat(self, args, result):
        self._made(self._path(args, 0))

    def _fsync(self, args, result):
        handle = self.handles.get(number(args[0]))
        if handle is None:
            return
        node = handle[0]
        node.synced = self.now
        if node.directory:
            for change in self.changes:
                if change.saved is None and id(node) in change.within:
                    change.saved = self.now
        else:
            self._syncs.setdefault(id(node), []).append(self.now)

    _fdatasync = _fsync

    def _doom(self, args):
        """Marks unsynced changes as lost after a failed sync, whatever later syncs return."""
        handle = self.handles.get(number(args[0]))
        if handle is None:
            return
        node = handle[0]
        safe = max(self._syncs.get(id(node), ()), default=-1)
        self.doomed.update(at for at, *_ in node.writes if at > safe)
        self.doomed.update(
            change.moment
            for change in self.changes
            if change.saved is None and id(node) in change.within
        )

    def _doom_all(self):
        """Does the same for everything."""
        for node in self.nodes:
            safe = max(self._syncs.get(id(node), ()), default=-1)
            self.doomed.update(at for at, *_ in node.writes if at > safe)
        self.doomed.update(change.moment for change in self.changes if change.saved is None)

    def _syncfs(self, args, result):
        for change in self.changes:
            if change.saved is None:
                change.saved = self.now
        for node in self.nodes:
            if not node.directory:
                self._syncs.setdefault(id(node), []).append(self.now)

    _sync = _syncfs

    @property
    def _syncs(self):
        return self.__dict__.setdefault("syncs", {})

    # Power loss

    def content(self, node, kept):
        """Returns the bytes of a file after the writes that were kept."""
        content = bytearray(node.base)
        for moment, offset, part in node.writes:
            share = kept(moment)
            if not share:
                continue
            if part is None:
                del content[offset:]
                content.extend(bytes(max(0, offset - len(content))))
                continue
            if share is not True:
                part = part[: int(len(part) * share)]
            if len(content) < offset:
                content.extend(bytes(offset - len(content)))
            content[offset : offset + len(part)] = part
        return bytes(content)

    def pending(self, moment):
        """Returns the moments of writes and changes up to `moment` that are not synced then."""
        open_ = [at for at in self.doomed if at <= moment]
        for change in self.changes:
            if change.moment <= moment and (change.saved is None or change.saved > moment):
                open_.append(change.moment)
        for node in self.nodes:
            safe = max((at for at in self._syncs.get(id(node), ()) if at <= moment), default=-1)
            open_ += [at for at, *_ in node.writes if safe < at <= moment]
        return sorted(set(open_))

    def crashed(self, moment, lost):
        """Returns the tree after a crash at a moment. `lost` gives the lost share of each pending
        moment; a change of names that is not fully kept is dropped."""

        def kept(at):
            return at <= moment and (1 - lost[at] if at in lost else True)

        names = dict(self.first)
        for change in self.changes:
            if kept(change.moment) is not True:
                continue
            for directory, name, node in change.names:
                if node is None:
                    names.pop((id(directory), name), None)
                else:
                    names[id(directory), name] = node
        children = {}
        for (directory, name), node in names.items():
            children.setdefault(directory, []).append((name, node))
        found, directories, seen = {}, set(), set()
        waiting = [("", self.root)]
        while waiting:
            path, node = waiting.pop()
            if id(node) in seen and node.directory:
                continue
            seen.add(id(node))
            if not node.directory:
                found[path] = self.content(node, kept)
                continue
            if path:
                directories.add(path)
            for name, child in children.get(id(node), ()):
                waiting.append((f"{path}/{name}".lstrip("/"), child))
        return found, directories


def split(args):
    """Splits the arguments of a call as strace prints them."""
    parts, depth, start, at = [], 0, 0, 0
    while at < len(args):
        c = args[at]
        if c == '"':
            at = _closing(args, at + 1)
        elif c in "([{<":
            depth += 1
        elif c in ")]}" or (c == ">" and args[at - 1] != "="):
            depth -= 1
        elif c == "," and depth == 0:
            parts.append(args[start:at].strip())
            start = at + 1
        at += 1
    parts.append(args[start:].strip())
    return parts


def _closing(args, at):
    while args[at] != '"':
        at += 2 if args[at] == "\\" else 1
    return at


def number(argument):
    """Parses a file descriptor argument."""
    found = re.match(r"^(\d+)", argument)
    return int(found.group(1)) if found else -1


def text(argument):
    """Decodes a string argument to bytes."""
    found = STRING.match(argument)
    if not found or argument.endswith("..."):
        raise RuntimeError(f"not a whole string: {argument[:80]}")
    return codecs.escape_decode(found.group(1).encode())[0]


def absolute(directory, name):
    """Returns a path from an annotated directory descriptor and a name."""
    name = os.fsdecode(text(name))
    if name.startswith("/"):
        return os.path.normpath(name)
    within = re.search(r"<(.*?)>(?:\(deleted\))?$", directory)
    return os.path.normpath(os.path.join(within.group(1) if within else "/", name))


def record(stage, arguments, options=()):
    """Runs a command; returns the disk with its calls replayed, and the completed process."""
    trace = stage.base.with_suffix(".trace")
    directories = {
        str(PurePosixPath(folder).relative_to(stage.base))
        for folder, _, _ in os.walk(stage.base)
        if PurePosixPath(folder) != PurePosixPath(stage.base)
    }
    before = stage.files()
    disk = Disk(str(stage.base), before, directories)
    run = stage.run(arguments, around=(*RECORD, str(trace), *options))
    try:
        disk.replay(trace.read_text(errors="surrogateescape"))
    finally:
        trace.unlink(missing_ok=True)
    return disk, run
