"""Threads, forks and killed processes."""

import json
import os
import signal
import subprocess
import sys
import threading

import pytest

from annals_store import AnnalsError, Root, Store


def test_threads_share_a_writer(store):
    with store.begin("/home/me/app") as writer:
        def work(number):
            for n in range(20):
                writer.user(f"{number}.{n}")

        threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        session = store.session(writer.id)
    texts = [entry["blocks"][0]["text"] for entry in session.messages()]
    assert len(texts) == len(set(texts)) == 160
    for number in range(8):
        assert [text for text in texts if text.startswith(f"{number}.")] == [f"{number}.{n}" for n in range(20)]


def test_a_blocking_call_lets_other_threads_run(store):
    follower = store.follow()
    seen = []
    reader = threading.Thread(target=lambda: seen.extend(follower))
    reader.start()
    # The reader waits in a call, and this thread goes on.
    with store.begin("/home/me/app") as writer:
        writer.user("one")
    while not any(event["kind"] == "entry" for event in seen):
        pass
    follower.close()
    reader.join(10)
    assert not reader.is_alive()


def in_child(work):
    """Runs `work` in a child made by fork(), and returns what it returns."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            answer = work()
        except BaseException as error:
            answer = repr(error)
        os.write(write, json.dumps(answer).encode())
        os._exit(0)
    os.close(write)
    signal.alarm(60)
    with open(read) as answer:
        text = answer.read()
    signal.alarm(0)
    os.waitpid(child, 0)
    return json.loads(text)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_after_fork_writers_refuse_and_questions_are_answered(store):
    writer = store.begin("/home/me/app")
    writer.user("hello")
    session = store.session(writer.id)
    assert len(store.sessions()) == store.search("hello")["total"] == 1

    def child():
        refused = []
        for call in (lambda: writer.user("no"), lambda: writer.totals(), lambda: writer.retitle("no")):
            try:
                call()
            except AnnalsError as error:
                refused.append(error.kind)
        writer.close()
        found = store.search("hello")["total"]
        with store.resume(session.info["id"], live=True) as own:
            own.user("from the child")
        return [refused, len(store.sessions()), found, len(session.messages())]

    assert in_child(child) == [["refused"] * 3, 1, 1, 1]
    writer.user("from the parent")
    texts = [entry["blocks"][0]["text"] for entry in store.session(writer.id).messages()]
    assert texts == ["hello", "from the child", "from the parent"]


class Alarm(Exception):
    pass


def test_a_signal_ends_a_search(store, root):
    with store.begin("/home/me/app", durability="os") as writer:
        for _ in range(20):
            writer.append(*["some words of a message"] * 1000)
    folder = os.path.dirname(writer.path)
    lines = open(writer.path).read()
    for number in range(10):
        id = f"{number:08d}-0000-4000-8000-000000000000"
        with open(os.path.join(folder, f"{id}.jsonl"), "w") as copy:
            copy.write(lines.replace(writer.id, id))

    def ring(*_):
        raise Alarm

    before = signal.signal(signal.SIGALRM, ring)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        # No word that would select records: all of them are read.
        with pytest.raises(Alarm):
            Store(root, state=root.path + "-state", index=False).search("[a-z]+ [0-9]+x", regex=True)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert store.search("some", limit=1, first=True)["at_least"] is True


APPEND = """
import sys
from annals_store import Root, Store
store = Store(Root("claude-code", sys.argv[1]), state=sys.argv[2], index=False)
writer = store.begin("/home/me/app", durability=sys.argv[3])
print(writer.id, flush=True)
n = 0
while True:
    writer.user(f"message {n}")
    print(n, flush=True)
    n += 1
"""


@pytest.mark.parametrize("durability", ["disk", "os"])
def test_nothing_acknowledged_is_lost_by_kill_9(tmp_path, durability):
    for round in range(3):
        root, state = tmp_path / "claude", tmp_path / "state"
        child = subprocess.Popen([sys.executable, "-c", APPEND, root, state, durability], stdout=subprocess.PIPE, text=True)
        id = child.stdout.readline().strip()
        for _ in range(10 + 7 * round):
            acknowledged = int(child.stdout.readline())
        child.kill()
        rest = child.stdout.read().split()
        child.wait()
        acknowledged = max([acknowledged, *map(int, rest[:-1])])
        store = Store(Root("claude-code", root), state=state, index=False)
        session = store.session(id)
        texts = [entry["blocks"][0]["text"] for entry in session.messages()]
        assert texts[: acknowledged + 1] == [f"message {n}" for n in range(acknowledged + 1)]
        assert len(texts) <= acknowledged + 3
        with store.resume(id, live=True) as writer:
            writer.user("after")
        session.grow()
        assert len(session.messages()) == len(texts) + 1


APPEND_FIVE = """
import sys
from annals_store import Root, Store
with Store(Root("claude-code", sys.argv[1]), state=sys.argv[2]).resume(sys.argv[3], live=True) as writer:
    for n in range(5):
        writer.user(f"{sys.argv[4]}.{n}")
"""


def test_processes_append_to_one_session(store, root, tmp_path):
    with store.begin("/home/me/app") as writer:
        writer.user("first")
        id = writer.id
    command = [sys.executable, "-c", APPEND_FIVE, root.path, str(tmp_path / "state"), id]
    processes = [subprocess.Popen([*command, str(n)]) for n in range(3)]
    assert [process.wait() for process in processes] == [0, 0, 0]
    assert store.session(id).stats()["by_role"] == {"user": 16}
    assert [report["flaws"] for report in store.check(id) if report["flaws"]] == []
