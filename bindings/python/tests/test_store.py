import json
import os
import subprocess
from datetime import datetime, timezone
from decimal import Decimal
from pathlib import Path

import pytest

import annals_store.types
from annals_store import AnnalsError, Root, Store

ROOT = Path(__file__).resolve().parents[3]
PROGRAM = Path(os.environ.get("ANNALS_PROGRAM", ROOT / "target" / "debug" / "annals"))
USAGE = {"input": 1000, "output": 20, "cache_write_5m": 3, "cache_write_1h": 4, "cache_read": 50}


def begin(store, *texts, **options):
    with store.begin("/home/me/app", **options) as writer:
        for text in texts:
            writer.user(text)
        return writer.id


def test_a_session_is_written_read_and_resumed(store):
    with store.begin("/home/me/app", title="Fix it") as writer:
        first = writer.user("Why does the build fail? ✓")
        call = {"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {"command": "make"}}
        entries = writer.assistant([{"type": "text", "text": "Let me see."}, call], model="claude-sonnet-4-5", usage=USAGE)
        result = writer.tool_result("toolu_1", "no such feature", is_error=True)
        assert [entry["parent"] for entry in entries] == [first["id"], entries[0]["id"]]
        assert writer.totals()["messages"] == 4
        assert (writer.agent, os.path.basename(writer.path)) == (None, writer.id + ".jsonl")
        assert writer.leaf == result["id"]
        id = writer.id
    assert (writer.leaf, os.path.basename(writer.path)) == (result["id"], id + ".jsonl")
    with store.resume(id) as again:
        last = again.append("And now?", {"role": "assistant", "content": "A flag."})
        assert [entry["role"] for entry in last] == ["user", "assistant"]
        assert last[0]["parent"] == result["id"]
    session = store.session(id[:8])
    messages = session.messages()
    assert [entry["role"] for entry in messages] == ["user", "assistant", "assistant", "user", "user", "assistant"]
    assert messages[0]["blocks"] == [{"kind": "text", "text": "Why does the build fail? ✓"}]
    assert messages[2]["blocks"][0]["input"] == {"command": "make"}
    assert messages[3]["blocks"][0]["is_error"] is True
    assert messages[2]["usage"] == USAGE
    assert session.message(first["id"]) == messages[0]
    assert session.ancestry(messages[2]["id"]) == messages[:3]
    raw = json.loads(session.raw(first["id"]))
    assert raw["message"]["content"] == "Why does the build fail? ✓"
    assert "✓".encode() in session.raw(first["id"])
    assert session.info["title"] == "Fix it" and session.info["messages"] == 6
    assert isinstance(session.cost(), Decimal) and session.cost() > 0
    assert session.stats()["total"]["messages"] == 6
    assert [it["resumes"] for it in session.conversations] == [True]
    assert (session.flaws, session.agents, session.files()) == ([], [], [])


def test_a_draft_may_have_a_datetime(store):
    time = datetime(2026, 11, 18, 12, 0, tzinfo=timezone.utc)
    with store.begin("/home/me/app") as writer:
        draft = {"role": "user", "content": "Why?", "timestamp": time}
        entries = writer.append(draft, {**draft, "timestamp": "2026-11-18T12:00:01Z"})
        times = [datetime.fromisoformat(entry["time"].replace("Z", "+00:00")) for entry in entries]
        assert times == [time, time.replace(second=1)]
        assert draft["timestamp"] is time
        with pytest.raises(AnnalsError) as failed:
            writer.append({**draft, "timestamp": 7})
        assert failed.value.kind == "bad_input"


def test_a_state_that_does_not_exist_is_bad_input(store):
    with pytest.raises(AnnalsError, match="archived") as failed:
        store.sessions(state="broken")
    assert failed.value.kind == "bad_input"


def test_messages_are_selected(store):
    with store.begin("/home/me/app") as writer:
        writer.user("one", timestamp=datetime(2026, 3, 1, 12, tzinfo=timezone.utc))
        writer.append({"role": "assistant", "content": "two", "timestamp": "2026-03-02T12:00:00Z"})
        writer.user("three", timestamp="2026-03-03T12:00:00Z")
    session = store.session(writer.id)
    texts = lambda **options: [entry["blocks"][0]["text"] for entry in session.messages(**options)]  # noqa: E731
    assert texts() == ["one", "two", "three"]
    assert texts(role="assistant") == ["two"]
    assert texts(text="THR") == ["three"]
    assert texts(since="2026-03-02") == ["two", "three"]
    assert texts(until=datetime(2026, 3, 2, tzinfo=timezone.utc)) == ["one"]
    assert texts(offset=1, limit=1) == ["two"]
    assert texts(budget=1) == ["three"]
    assert texts(leaf=session.messages()[1]["id"]) == ["one", "two"]


def test_a_session_grows(store):
    writer = store.begin("/home/me/app")
    writer.user("one")
    session = store.session(writer.id)
    assert session.grow() is False
    writer.user("two")
    assert len(session.messages()) == 1
    assert session.grow() is True
    assert len(session.messages()) == 2
    assert len(store.tail(writer.id, 1).messages(budget=1)) == 1


def test_documents_titles_tags_notes_and_compactions(store):
    with store.begin("/home/me/app") as writer:
        writer.user("Make it faster")
        todos = [{"content": "Measure", "status": "in_progress", "activeForm": "Measuring"}]
        writer.set_todos(todos)
        writer.retitle("Speed")
        writer.tag("fast")
        note = writer.note("Look at this again")
        compacted = writer.compact("They wanted speed.", 1000)
    session = store.session(writer.id)
    assert list(session.todos().values()) == [todos]
    assert (session.info["title"], session.info["tag"]) == ("Speed", "fast")
    assert note["kind"] == "note"
    assert "compaction" in [entry["kind"] for entry in compacted]


def test_sub_agents(store):
    with store.begin("/home/me/app") as writer:
        writer.assistant([{"type": "tool_use", "id": "toolu_2", "name": "Task", "input": {}}])
        with writer.delegate("toolu_2", "Explore", "Find the readers") as helper:
            helper.user("Which modules read files?")
    session = store.session(writer.id)
    assert [(agent["kind"], agent["description"], agent["messages"]) for agent in session.agents] == [
        ("Explore", "Find the readers", 1)]
    found = session.messages(agent=session.agents[0]["id"])
    assert found[0]["blocks"][0]["text"] == "Which modules read files?"


def test_sessions_are_listed_forked_deleted_and_restored(store):
    one, two = begin(store, "alpha"), begin(store, "beta", "gamma")
    assert {row["id"] for row in store.sessions()} == {one, two}
    assert [row["id"] for row in store.sessions(text="alpha")] == [one]
    assert store.sessions(project="/elsewhere") == []
    assert len(store.sessions(limit=1)) == 1
    assert store.sessions(until="2020-01-01") == []
    fork = store.fork(two, store.session(two).messages()[0]["id"], title="Another way")
    assert len(store.session(fork).messages()) == 1
    assert [row["id"] for row in store.conversations(fork)][0].startswith(fork)
    trashed = store.delete(one)
    assert trashed["session"] == one and trashed["files"] >= 1 and trashed["bytes"] > 0
    with pytest.raises(AnnalsError) as error:
        store.session(one)
    assert error.value.kind == "not_found"
    store.undelete(one)
    assert store.session(one).messages()[0]["blocks"][0]["text"] == "alpha"
    assert store.projects()[0]["sessions"] == 3
    assert len(store.reset("/home/me/app", plan=True)) == 3
    assert len(store.reset("/home/me/app")) == 3
    assert store.sessions() == []


def test_search_cost_and_check(store):
    with store.begin("/home/me/app") as writer:
        writer.user("Where is the parallax computed?", timestamp="2026-03-01T12:00:00Z")
        writer.append({"role": "assistant", "content": "In scroll.rs", "model": "claude-sonnet-4-5", "usage": USAGE,
                       "timestamp": "2026-03-01T12:00:01Z"})
    found = store.search("parallax", context=1)
    assert (found["total"], found["sessions"], found["at_least"]) == (1, 1, False)
    hit = found["hits"][0]
    assert hit["session"] == writer.id and "parallax" in hit["snippet"]
    assert [entry["role"] for entry in hit["after"]] == ["assistant"]
    assert store.search("paral+ax", regex=True, order="newest")["total"] == 1
    cost = store.cost(["day", "model"])
    assert [(row["day"], row["model"], row["output"]) for row in cost["rows"]] == [("2026-03-01", "claude-sonnet-4-5", 20)]
    assert store.cost("month,session", session=writer.id)["rows"][0]["session"] == writer.id
    assert Decimal(cost["total"]["cost_usd"]) == store.session(writer.id).cost()
    reports = store.check(writer.id)
    assert [report["flaws"] for report in reports if report["path"].endswith(writer.id + ".jsonl")] == [[]]
    with open(hit["file"], "a") as log:
        log.write("{broken\n")
    assert [flaw["severity"] for report in store.check() for flaw in report["flaws"]] == ["error"]


def test_a_search_is_limited_to_a_project_and_a_time(store):
    with store.begin("/home/me/app") as writer:
        for day in (1, 2, 3):
            writer.user(f"needle {day}", timestamp=f"2026-03-0{day}T12:00:00Z")
    with store.begin("/home/me/other") as other:
        other.user("needle 4", timestamp="2026-03-04T12:00:00Z")
    texts = lambda **options: [hit["snippet"] for hit in store.search("needle", order="oldest", **options)["hits"]]  # noqa: E731
    assert texts() == ["needle 1", "needle 2", "needle 3", "needle 4"]
    assert texts(project="/home/me/app") == ["needle 1", "needle 2", "needle 3"]
    assert texts(project="/home/me/app", offset=1, limit=1) == ["needle 2"]
    assert texts(since="2026-03-03") == ["needle 3", "needle 4"]
    assert texts(until=datetime(2026, 3, 2, tzinfo=timezone.utc)) == ["needle 1"]
    found = store.search("needle", limit=1, first=True)
    assert (len(found["hits"]), found["at_least"]) == (1, True)
    with pytest.raises(AnnalsError) as error:
        store.search("needle", since="soon")
    assert error.value.kind == "bad_input"


def test_following_goes_on_after_a_cursor(store):
    writer = store.begin("/home/me/app")
    writer.user("before")

    def follow(since=None):
        texts = []
        with_cursor = store.follow(session=writer.id, since=since)
        for event in with_cursor:
            if event["kind"] == "entry":
                texts.append(event["entry"]["blocks"][0]["text"])
            if event["kind"] == "caught_up":
                with_cursor.close()
                return texts, event["cursor"]

    texts, cursor = follow()
    assert texts == []
    writer.append("one", "two")
    assert follow(cursor)[0] == ["one", "two"]
    assert follow(follow(cursor)[1])[0] == []
    with pytest.raises(AnnalsError) as error:
        store.follow(since="nonsense")
    assert error.value.kind == "bad_input"


def test_the_context_is_what_an_agent_sends(store):
    with store.begin("/home/me/app") as writer:
        writer.user("Count", timestamp="2026-03-01T12:00:00Z")
        call = {"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {"n": 1}}
        writer.assistant([{"type": "text", "text": "Yes."}, call], message_id="msg_1")
        result = writer.tool_result("toolu_1", "100")
        writer.user("And?")
    context = store.session(writer.id).context()
    assert [message["role"] for message in context] == ["user", "assistant", "user", "assistant"]
    assert [block["type"] for message in context for block in message["content"]] == [
        "text", "text", "tool_use", "tool_result", "text", "text"]
    assert context[-1]["content"][0]["text"] == "No response requested."
    assert len(store.session(writer.id).context(result["id"])[2]["content"]) == 1


def test_members_of_layouts_and_whole_records_are_written(tmp_path):
    store = Store(Root("clog", tmp_path / "storage"), state=tmp_path / "state", zone="UTC")
    with store.begin("/srv", id="thread_a1", title="Errors", members={"channel": "telegram"}) as writer:
        writer.user("What happened?")
    row = store.sessions()[0]
    assert (row["thread"], row["channel"], row["title"]) == ("thread_a1", "telegram", "Errors")
    chorus = Store(Root("chorus", tmp_path / ".chorus"), state=tmp_path / "state", zone="UTC")
    with chorus.begin(tmp_path, folder="ws-1/agent-a", members={"branchName": "main"}) as writer:
        record = {"uuid": "m1", "type": "user", "content": "Why? ✓", "timestamp": "2026-03-01T12:00:00Z"}
        entries = writer.append_raw(record, json.dumps({**record, "uuid": "m2"}).encode())
        assert [entry["id"] for entry in entries] == ["m1", "m2"]
    session = chorus.session(writer.id)
    assert (session.info["workspace"], session.info["agent"], session.info["git_branch"]) == ("ws-1", "agent-a", "main")
    assert session.raw("m1") == json.dumps(record, separators=(",", ":"), ensure_ascii=False).encode()


def test_conversion(store, tmp_path):
    begin(store, "alpha")
    other = Root("chorus", tmp_path / ".chorus")
    assert store.convert(other) == {"sessions": 1, "lost": []}
    assert [row["layout"] for row in Store(other, state=tmp_path / "s2").sessions()] == ["chorus"]


def test_errors_have_kind_path_and_candidates(store):
    begin(store, "x", id="11111111-0000-4000-8000-000000000001")
    begin(store, "x", id="11111111-0000-4000-8000-000000000002")
    with pytest.raises(AnnalsError) as error:
        store.session("1111")
    assert error.value.kind == "ambiguous" and len(error.value.candidates) == 2
    cases = [
        (lambda: store.sessions(since="soon"), "bad_input"),
        (lambda: store.search('"open'), "bad_input"),
        (lambda: store.cost("colour"), "bad_input"),
        (lambda: store.begin("/home/me/app", durability="maybe"), "bad_input"),
        (lambda: store.begin("/home/me/app", id="11111111-0000-4000-8000-000000000001"), "refused"),
        (lambda: store.resume("11111111-0000-4000-8000-000000000001").append({"role": "user"}), "bad_input"),
        (lambda: store.session("11111111-0000-4000-8000-000000000001").message("nope"), "not_found"),
        (lambda: Root("nothing", "/tmp"), "not_found"),
    ]
    for call, kind in cases:
        with pytest.raises(AnnalsError) as error:
            call()
        assert error.value.kind == kind, str(error.value)
    with pytest.raises(AnnalsError) as error:
        Store(Root("claude-code", "/proc/none"), state="/proc/none").begin("/x").user("y")
    assert error.value.kind in ("io", "refused") and error.value.path.startswith("/proc")


def test_all_or_none_of_several_drafts_are_written(store):
    writer = store.begin("/home/me/app")
    writer.user("before")
    size = os.path.getsize(writer.path)
    with pytest.raises(AnnalsError, match="draft 2"):
        writer.append("one", {"role": "nobody", "content": "two"})
    assert os.path.getsize(writer.path) == size
    with pytest.raises(ValueError, match="JSON"):
        writer.append({"role": "user", "content": float("nan")})
    writer.close()
    with pytest.raises(AnnalsError, match="closed"):
        writer.user("after")


def test_discover_reads_the_environment_that_is_given(tmp_path):
    env = {"HOME": str(tmp_path), "ANNALS_STATE_DIR": str(tmp_path / "state"), "TZ": "UTC"}
    store = Store.discover(env, cwd=tmp_path)
    writer = store.begin(tmp_path / "app")
    writer.user("hello")
    assert writer.path.startswith(str(tmp_path / ".claude"))
    assert [root.layout for root in Store.discover(env, cwd=tmp_path).roots] == ["claude-code"]


def declared(row):
    return row.__required_keys__, row.__required_keys__ | row.__optional_keys__


FIXTURES = sorted(path for path in (ROOT / "fixtures").glob("*/*") if path.is_dir()) if (ROOT / "fixtures").is_dir() else []


@pytest.mark.skipif(not FIXTURES or not PROGRAM.is_file(), reason="needs the fixtures and the built program")
@pytest.mark.parametrize("layout", sorted({path.parent.name for path in FIXTURES}))
def test_fixtures_have_the_rows_of_the_program(layout, tmp_path, monkeypatch):
    """The program, asked for the same, gives equal values, and the types have all keys."""
    monkeypatch.setenv("ANNALS_NOW", "2026-06-01T00:00:00Z")
    types = annals_store.types
    for path in [path for path in FIXTURES if path.parent.name == layout][:12]:
        env = {"HOME": str(tmp_path), "ANNALS_STATE_DIR": str(tmp_path / path.name), "TZ": "UTC",
               "ANNALS_NOW": "2026-06-01T00:00:00Z"}
        program = lambda *args: json.loads(  # noqa: E731
            subprocess.run([PROGRAM, "--root", f"{layout}:{path}", "--no-index", "--json", *args], env=env, check=False,
                           stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout or b"null")
        store = Store(Root(layout, path), state=tmp_path / path.name, index=False, zone="UTC")
        listed = store.sessions()
        same(listed, (program("sessions") or {"sessions": []})["sessions"])
        keys(types.SessionInfo, listed)
        keys(types.Project, store.projects())
        found = store.search("the", context=1)
        keys(types.Hit, found["hits"])
        keys(types.Found, [found])
        cost = store.cost(["session", "day"])
        same(cost["rows"], program("cost", "--by", "session,day")["rows"])
        keys(types.CostRow, cost["rows"])
        keys(types.CostReport, [cost])
        for report in store.check():
            keys(types.FileReport, [report])
            keys(types.FoundFlaw, report["flaws"])
        for row in listed:
            if row["state"] == "deleted":
                continue
            if sum(other["file"] == row["file"] for other in listed) > 1:
                # A path names all sessions of a file.
                continue
            if not os.path.exists(row["file"]):
                # Listed, but nothing was written yet.
                continue
            try:
                session = store.session(row["file"])
            except AnnalsError as error:
                assert error.kind == "ambiguous"
                continue
            entries = session.messages()
            keys(types.Entry, entries)
            keys(types.Conversation, session.conversations)
            keys(types.Agent, session.agents)
            keys(types.FileVersion, session.files())
            shown = program("show", row["file"])
            if shown is not None and "entries" in shown:
                messages = [entry for entry in shown["entries"] if entry["kind"] == "message"]
                assert messages == [entry for entry in entries if entry["kind"] == "message"]
                assert all(entry in shown["entries"] for entry in entries)


def same(ours, theirs):
    for one, other in zip(ours, theirs, strict=True):
        one, other = dict(one), dict(other)
        for row in (one, other):
            # The program and the store differ in their clock.
            row.pop("state", None)
        assert one == other


def keys(row, found):
    required, known = declared(row)
    for one in found:
        assert required <= one.keys() <= known, (row.__name__, required - one.keys(), one.keys() - known)
