//! The sample history: five sessions in two projects, written as an agent builder would write them.

use annals::Result;
use annals::jsonl::Durability;
use annals::layout::{NewSession, Spawn};
use annals::model::{
    AgentId, Block, Body, Draft, Entry, EntryId, Message, SessionId, Todo, TodoStatus, Usage,
};
use annals::store::{Root, SessionWriter, Store, WriteOptions};
use jiff::{SignedDuration, Timestamp};

const SONNET: &str = "claude-sonnet-4-5-20250929";
const HAIKU: &str = "claude-haiku-4-5-20251001";
const HARBOR: &str = "/home/dev/harbor";
const ATLAS: &str = "/home/dev/atlas-web";

/// Ids of the sessions that were written.
pub(super) struct DemoSessions {
    /// A flaky test: branches, a sub-agent, a failed command.
    pub(super) upload: SessionId,
    /// The last message of the abandoned branch.
    pub(super) branch: EntryId,
    /// A migration that was compacted.
    pub(super) config: SessionId,
    /// A session with open todos.
    pub(super) dark: SessionId,
    paint: SessionId,
    query: SessionId,
}

impl DemoSessions {
    pub(super) fn ids(&self) -> [&str; 5] {
        [
            &self.upload,
            &self.config,
            &self.dark,
            &self.paint,
            &self.query,
        ]
        .map(SessionId::as_str)
    }
}

/// Writes the sample, which ends shortly before `now`.
pub(super) fn write(store: &Store, root: &Root, now: Timestamp) -> Result<DemoSessions> {
    let begin = |cwd: &str, branch: &str, hours: i64| -> Result<DemoWriter> {
        let start = now
            .checked_sub(SignedDuration::from_hours(hours))
            .unwrap_or(now);
        let id = SessionId::new(&uuid::Uuid::new_v4().to_string())?;
        let new = NewSession::new(id, cwd).git_branch(branch);
        // A sample need not survive a power failure, so do not wait for the disk.
        let options = WriteOptions {
            durability: Durability::Os,
            now: Some(start),
            ..WriteOptions::default()
        };
        let writer = store.create(root, &new, options)?;
        Ok(DemoWriter {
            writer,
            time: start,
            model: SONNET,
            context: 14_200,
            seen: 0,
        })
    };
    let query = slow_query(begin(ATLAS, "main", 6 * 24 + 3)?)?;
    let config = config_loader(begin(HARBOR, "toml-config", 4 * 24 + 5)?)?;
    let paint = first_paint(begin(ATLAS, "main", 2 * 24 + 2)?)?;
    let (upload, branch) = flaky_upload(begin(HARBOR, "fix-upload", 27)?)?;
    let dark = dark_mode(begin(ATLAS, "dark-mode", 2)?)?;
    Ok(DemoSessions {
        upload,
        branch,
        config,
        dark,
        paint,
        query,
    })
}

fn slow_query(mut scribe: DemoWriter) -> Result<SessionId> {
    scribe.ask(
        4,
        "Why does the orders page take four seconds? The query is in src/db/orders.ts.",
    )?;
    scribe.reply(6, [
        think("The page loads orders with their customer and items. I should look at the query before I guess."),
        text("I'll read the query and ask the database how it runs it."),
        call("toolu_q1", "Read", r#"{"file_path":"/home/dev/atlas-web/src/db/orders.ts"}"#),
        call("toolu_q2", "Bash", r#"{"command":"psql atlas -c \"explain analyze select * from orders where customer_id = 42 order by created_at desc limit 50\"","description":"Explain the query"}"#),
    ])?;
    scribe.result(1, "toolu_q1", "  1\texport const latest = sql`\n  2\t  select * from orders\n  3\t  where customer_id = ${id}\n  4\t  order by created_at desc limit 50`;", false)?;
    scribe.result(2, "toolu_q2", "Limit  (actual time=3871.2..3871.3 rows=50)\n  ->  Sort  (actual time=3871.2..3871.2 rows=50)\n        ->  Seq Scan on orders  (actual time=0.1..3702.4 rows=18211)\n              Filter: (customer_id = 42)\n              Rows Removed by Filter: 4120377", false)?;
    scribe.reply(9, [text("`orders` has no index that starts with `customer_id`, so all 4.1 million rows are read and 18,211 are sorted for 50.\n\n```sql\ncreate index concurrently orders_customer_created\n  on orders (customer_id, created_at desc);\n```\n\nWith it the database reads 50 entries of the index in order: no scan, no sort. `concurrently` keeps the table writable meanwhile.")])?;
    scribe.ask(180, "That took it to 3 ms. Thanks.")?;
    scribe.reply(3, [text("Good. The same pattern is in `src/db/invoices.ts`; that table is small today, but it will need the same index.")])?;
    scribe.writer.retitle("Slow orders page: missing index")?;
    scribe.writer.tag("keep")?;
    Ok(scribe.writer.session())
}

fn config_loader(mut scribe: DemoWriter) -> Result<SessionId> {
    scribe.ask(
        3,
        "Move the configuration from YAML to TOML. Old files must still be read for one release.",
    )?;
    scribe.reply(8, [
        think("Two readers behind one type. First find who reads the YAML today."),
        call("toolu_c1", "Grep", r#"{"pattern":"serde_yaml","path":"/home/dev/harbor","output_mode":"files_with_matches"}"#),
        call("toolu_c2", "Read", r#"{"file_path":"/home/dev/harbor/src/config.rs"}"#),
    ])?;
    scribe.result(
        1,
        "toolu_c1",
        "Found 2 files\nsrc/config.rs\nCargo.toml",
        false,
    )?;
    scribe.result(1, "toolu_c2", "  1\tpub fn load(path: &Path) -> Result<Config> {\n  2\t    let text = fs::read_to_string(path)?;\n  3\t    Ok(serde_yaml::from_str(&text)?)\n  4\t}", false)?;
    scribe.reply(7, [
        text("Only `config.rs` reads it. I'll choose the reader by the file's extension and warn about YAML."),
        call("toolu_c3", "Edit", r#"{"file_path":"/home/dev/harbor/src/config.rs","old_string":"    Ok(serde_yaml::from_str(&text)?)","new_string":"    match path.extension().and_then(OsStr::to_str) {\n        Some(\"yaml\" | \"yml\") => {\n            warn!(\"{} is YAML; run `harbor migrate-config`\", path.display());\n            Ok(serde_yaml::from_str(&text)?)\n        }\n        _ => Ok(toml::from_str(&text)?),\n    }"}"#),
    ])?;
    scribe.result(
        1,
        "toolu_c3",
        "The file /home/dev/harbor/src/config.rs has been updated.",
        false,
    )?;
    scribe.reply(
        4,
        [call(
            "toolu_c4",
            "Bash",
            r#"{"command":"cargo test config","description":"Run the tests of the configuration"}"#,
        )],
    )?;
    scribe.result(21, "toolu_c4", "running 6 tests\ntest config::reads_toml ... ok\ntest config::reads_yaml_with_warning ... ok\ntest result: ok. 6 passed; 0 failed", false)?;
    scribe.reply(5, [text("Both formats are read and the six tests pass. Next is `harbor migrate-config`, which writes the TOML beside the YAML.")])?;
    scribe.writer.compact(
        "We move harbor's configuration from YAML to TOML. `src/config.rs` chooses the reader by extension and warns about YAML; its six tests pass. Still to do: the command `harbor migrate-config`, which writes the TOML file beside the YAML one and leaves the old file alone.",
        Some(scribe.context),
    )?;
    scribe.time = seconds_after(scribe.time, 120);
    scribe.context = 15_900;
    scribe.ask(30, "Now the migrate command.")?;
    scribe.reply(11, [
        think("Write beside, never over: refuse if the TOML exists."),
        call("toolu_c5", "Write", r#"{"file_path":"/home/dev/harbor/src/cmd/migrate_config.rs","content":"pub fn run(from: &Path) -> Result<()> {\n    let to = from.with_extension(\"toml\");\n    let config: Config = serde_yaml::from_str(&fs::read_to_string(from)?)?;\n    let mut file = File::create_new(&to)?;\n    file.write_all(toml::to_string_pretty(&config)?.as_bytes())?;\n    Ok(())\n}\n"}"#),
    ])?;
    scribe.result(
        1,
        "toolu_c5",
        "File created successfully at: /home/dev/harbor/src/cmd/migrate_config.rs",
        false,
    )?;
    scribe.reply(6, [text("`harbor migrate-config config.yaml` now writes `config.toml` and fails if that file exists.")])?;
    scribe.writer.retitle("Configuration: YAML to TOML")?;
    scribe.writer.set_todos(&[
        todo("Read TOML and YAML by extension", TodoStatus::Completed),
        todo("Add harbor migrate-config", TodoStatus::Completed),
        todo("Remove the YAML reader after 0.9", TodoStatus::Pending),
    ])?;
    Ok(scribe.writer.session())
}

fn first_paint(mut scribe: DemoWriter) -> Result<SessionId> {
    scribe.ask(3, "What blocks the first paint of the search page?")?;
    scribe.reply(7, [
        text("I'll look at what the page loads before it can draw anything."),
        call("toolu_p1", "Bash", r#"{"command":"npx lighthouse http://localhost:3000/search --only-audits=render-blocking-resources --output=json --quiet | jq '.audits[].details.items'","description":"List what blocks rendering"}"#),
    ])?;
    scribe.result(19, "toolu_p1", "[\n  {\"url\": \"/fonts/inter.css\", \"wastedMs\": 310},\n  {\"url\": \"/vendor/charts.js\", \"wastedMs\": 1240}\n]", false)?;
    scribe.reply(6, [text("Two things:\n\n| resource | blocks for | needed for the first paint |\n|---|---|---|\n| `charts.js` | 1,240 ms | no, the chart is below the fold |\n| `inter.css` | 310 ms | only its first two rules |\n\nLoad `charts.js` with `defer`, and inline the two rules. That leaves nothing that blocks.")])?;
    Ok(scribe.writer.session())
}

fn flaky_upload(mut scribe: DemoWriter) -> Result<(SessionId, EntryId)> {
    scribe.ask(
        2,
        "tests/upload.rs fails about one time in ten on CI. Find out why and fix it.",
    )?;
    scribe.reply(9, [
        think("Flaky means timing or shared state. I need the test and the server code it exercises, and what CI says."),
        text("I'll read the test and run it many times, and let a sub-agent look for shared state meanwhile."),
        call("toolu_u1", "Read", r#"{"file_path":"/home/dev/harbor/tests/upload.rs"}"#),
        call("toolu_u2", "Bash", r#"{"command":"for i in $(seq 50); do cargo test -q --test upload || break; done","description":"Run the test until it fails"}"#),
        call("toolu_u3", "Task", r#"{"description":"Find shared state","prompt":"List every static, thread-local and temporary path that src/upload/ uses, with file and line.","subagent_type":"Explore"}"#),
    ])?;
    scribe.result(1, "toolu_u1", "  1\t#[test]\n  2\tfn resumes_after_disconnect() {\n  3\t    let server = Server::start(\"/tmp/harbor-test\");\n  4\t    let id = server.begin(CHUNKS);\n  5\t    server.disconnect();\n  6\t    thread::sleep(Duration::from_millis(100));\n  7\t    assert_eq!(server.resume(id).missing(), 3);\n  8\t}", false)?;
    scribe.result(64, "toolu_u2", "running 4 tests\n..F.\nthread 'resumes_after_disconnect' panicked at tests/upload.rs:7:5:\nassertion `left == right` failed\n  left: 4\n right: 3\nerror: test failed, to rerun pass `--test upload`", true)?;
    let agent = AgentId::new("a3f81c5d2e9b07464")?;
    write_sub_agent(&scribe, &agent)?;
    scribe.agent_result(8, "toolu_u3", &agent, "Shared between tests:\n- src/upload/spool.rs:12 `SPOOL_DIR`, a static path under /tmp\n- src/upload/session.rs:31 `NEXT_ID`, a counter that starts at 1 in each process\n\nTwo tests of one run get the same spool directory and the same ids.")?;
    let found = scribe.reply(8, [
        think("left 4, right 3: one chunk more is missing than expected. Either the sleep is too short or another test cleaned the shared spool. The sub-agent's finding explains both."),
        text("There are two causes: the test sleeps 100 ms instead of waiting for the disconnect, and all tests share `/tmp/harbor-test`. The second explains why it fails only when tests run in parallel."),
    ])?;
    // The first attempt, which the user takes back by editing the prompt.
    scribe.ask(95, "Just make the sleep longer for now.")?;
    scribe.reply(6, [
        text("I can, but it will only fail less often."),
        call("toolu_u4", "Edit", r#"{"file_path":"/home/dev/harbor/tests/upload.rs","old_string":"from_millis(100)","new_string":"from_millis(500)"}"#),
    ])?;
    scribe.result(
        1,
        "toolu_u4",
        "The file /home/dev/harbor/tests/upload.rs has been updated.",
        false,
    )?;
    let branch = scribe.reply(4, [text("The test now sleeps 500 ms. The shared directory is still there, so I expect one failure in about sixty runs.")])?;
    scribe.ask_with_parent(
        140,
        "Fix both causes properly: no sleeps, and a directory for each test.",
        &found,
    )?;
    scribe.writer.set_todos(&upload_todos(1))?;
    scribe.reply(7, [
        text("I'll give each test a directory of its own and wait for the event instead of the clock."),
        call("toolu_u5", "Edit", r#"{"file_path":"/home/dev/harbor/tests/upload.rs","old_string":"    let server = Server::start(\"/tmp/harbor-test\");\n    let id = server.begin(CHUNKS);\n    server.disconnect();\n    thread::sleep(Duration::from_millis(100));","new_string":"    let spool = tempfile::tempdir().unwrap();\n    let server = Server::start(spool.path());\n    let id = server.begin(CHUNKS);\n    server.disconnect().wait();"}"#),
        call("toolu_u6", "Edit", r#"{"file_path":"/home/dev/harbor/src/upload/spool.rs","old_string":"static SPOOL_DIR: &str = \"/tmp/harbor-test\";","new_string":"pub struct Spool {\n    dir: PathBuf,\n}"}"#),
    ])?;
    scribe.result(
        1,
        "toolu_u5",
        "The file /home/dev/harbor/tests/upload.rs has been updated.",
        false,
    )?;
    scribe.result(
        1,
        "toolu_u6",
        "The file /home/dev/harbor/src/upload/spool.rs has been updated.",
        false,
    )?;
    scribe.reply(4, [call("toolu_u7", "Bash", r#"{"command":"for i in $(seq 500); do cargo test -q --test upload || break; done; echo runs: $i","description":"Run the test 500 times"}"#)])?;
    scribe.result(512, "toolu_u7", "runs: 500", false)?;
    scribe.writer.set_todos(&upload_todos(2))?;
    scribe.reply(6, [text("500 runs without a failure.\n\n- each test has a spool directory of its own\n- `disconnect()` gives a handle, and the test waits for it\n\nWhat is left is the entry in the changelog.")])?;
    scribe.writer.retitle("Flaky upload test")?;
    let mut note = Draft::note("Backport to 0.8 once CI has been green for a week.");
    if let Body::Note { author, .. } = &mut note.body {
        *author = Some("mira".to_owned());
    }
    scribe
        .writer
        .append(note.with_time(seconds_after(scribe.time, 300)))?;
    Ok((scribe.writer.session(), branch))
}

/// Writes the sub-agent's log, linked to the call that spawned it.
fn write_sub_agent(parent: &DemoWriter, agent: &AgentId) -> Result<()> {
    let spawn = Spawn::new(agent.clone(), "Explore", "Find shared state").call("toolu_u3");
    let writer = parent.writer.spawn(&spawn)?;
    let start = parent
        .time
        .checked_sub(SignedDuration::from_secs(60))
        .unwrap_or(parent.time);
    let mut scribe = DemoWriter {
        writer,
        time: start,
        model: HAIKU,
        context: 6_100,
        seen: 0,
    };
    scribe.ask(0, "List every static, thread-local and temporary path that src/upload/ uses, with file and line.")?;
    scribe.reply(3, [
        call("toolu_e1", "Grep", r#"{"pattern":"static |thread_local!","path":"src/upload","output_mode":"content","-n":true}"#),
        call("toolu_e2", "Grep", r#"{"pattern":"/tmp|temp_dir","path":"src/upload","output_mode":"content","-n":true}"#),
    ])?;
    scribe.result(1, "toolu_e1", "src/upload/spool.rs:12:static SPOOL_DIR: &str = \"/tmp/harbor-test\";\nsrc/upload/session.rs:31:static NEXT_ID: AtomicU64 = AtomicU64::new(1);", false)?;
    scribe.result(
        1,
        "toolu_e2",
        "src/upload/spool.rs:12:static SPOOL_DIR: &str = \"/tmp/harbor-test\";",
        false,
    )?;
    scribe.reply(5, [text("Shared between tests:\n- src/upload/spool.rs:12 `SPOOL_DIR`, a static path under /tmp\n- src/upload/session.rs:31 `NEXT_ID`, a counter that starts at 1 in each process\n\nTwo tests of one run get the same spool directory and the same ids.")])?;
    Ok(())
}

fn upload_todos(done: usize) -> Vec<Todo> {
    let all = [
        "Give each test its own spool directory",
        "Wait for the disconnect instead of sleeping",
        "Write the changelog entry",
    ];
    let status = |at: usize| match at {
        _ if at < done => TodoStatus::Completed,
        _ if at == done => TodoStatus::InProgress,
        _ => TodoStatus::Pending,
    };
    all.iter()
        .enumerate()
        .map(|(at, content)| todo(content, status(at)))
        .collect()
}

fn dark_mode(mut scribe: DemoWriter) -> Result<SessionId> {
    scribe.ask(
        5,
        "Add a dark mode to the settings page. Follow the system unless the user chose one.",
    )?;
    scribe.writer.set_todos(&[
        todo("Define the colours as CSS variables", TodoStatus::Completed),
        todo("Read and store the choice", TodoStatus::InProgress),
        todo("Check the contrast of the charts", TodoStatus::Pending),
    ])?;
    scribe.reply(8, [
        think("Three states: light, dark, system. The stored value wins, else the media query. Set it before the first paint to avoid a flash."),
        text("The colours become variables, and one attribute on `<html>` chooses the set."),
        call("toolu_d1", "Edit", r#"{"file_path":"/home/dev/atlas-web/src/styles/colors.css","old_string":":root {\n  --bg: #ffffff;\n  --fg: #1a1a1a;\n}","new_string":":root {\n  --bg: #ffffff;\n  --fg: #1a1a1a;\n}\n\n:root[data-theme=\"dark\"] {\n  --bg: #14161a;\n  --fg: #e6e6e6;\n}"}"#),
    ])?;
    scribe.result(
        1,
        "toolu_d1",
        "The file /home/dev/atlas-web/src/styles/colors.css has been updated.",
        false,
    )?;
    scribe.reply(5, [text("The variables are in place. Should the choice be kept per device, or with the account?")])?;
    scribe.ask(240, "Per device is fine.")?;
    scribe.reply(5, [text("Then `localStorage` it is, read by a small script in the head so that the page never flashes in the wrong colours.")])?;
    Ok(scribe.writer.session())
}

/// Writes the log of one agent, and tracks its time and tokens.
struct DemoWriter {
    writer: SessionWriter,
    time: Timestamp,
    model: &'static str,
    /// Tokens in the context so far.
    context: u64,
    /// Tokens in the context at the model's last answer.
    seen: u64,
}

impl DemoWriter {
    fn ask(&mut self, after: i64, prompt: &str) -> Result<EntryId> {
        self.write(after, Draft::user(prompt))
    }

    /// Asks again at an earlier message, which makes a branch.
    fn ask_with_parent(&mut self, after: i64, prompt: &str, parent: &EntryId) -> Result<EntryId> {
        self.write(after, Draft::user(prompt).with_parent(parent.clone()))
    }

    fn reply<const N: usize>(&mut self, after: i64, blocks: [Block; N]) -> Result<EntryId> {
        let output = blocks.iter().map(block_tokens).sum::<u64>() / 3 + 20;
        let usage = Usage {
            input: 4,
            output,
            cache_write_5m: self.context - self.seen,
            cache_read: self.seen,
            ..Usage::default()
        };
        self.seen = self.context;
        self.write(
            after,
            Draft::assistant(blocks).model(self.model).usage(usage),
        )
    }

    fn result(&mut self, after: i64, call: &str, output: &str, is_error: bool) -> Result<EntryId> {
        let mut draft = Draft::tool_result(call, output);
        if let Body::Message(Message { blocks, .. }) = &mut draft.body
            && let Some(Block::ToolResult {
                is_error: failed, ..
            }) = blocks.first_mut()
        {
            *failed = is_error;
        }
        self.write(after, draft)
    }

    fn agent_result(
        &mut self,
        after: i64,
        call: &str,
        agent: &AgentId,
        output: &str,
    ) -> Result<EntryId> {
        let mut draft = Draft::tool_result(call, output);
        if let Body::Message(message) = &mut draft.body {
            message.spawned = Some(agent.clone());
        }
        self.write(after, draft)
    }

    fn write(&mut self, after: i64, draft: Draft) -> Result<EntryId> {
        self.time = seconds_after(self.time, after);
        if let Body::Message(message) = &draft.body {
            self.context += message.blocks.iter().map(block_tokens).sum::<u64>() / 3;
        }
        let written: Vec<Entry> = self.writer.append_all(vec![draft.with_time(self.time)])?;
        let last = written.last().and_then(|entry| entry.id.clone());
        last.ok_or_else(|| annals::Error::refused("an entry was written without an id"))
    }
}

fn seconds_after(time: Timestamp, seconds: i64) -> Timestamp {
    time.checked_add(SignedDuration::from_secs(seconds))
        .unwrap_or(time)
}

fn block_tokens(block: &Block) -> u64 {
    let mut length = 0;
    block.visit_texts(&mut |text| length += text.len() as u64);
    length
}

fn think(thought: &str) -> Block {
    Block::Thinking {
        text: thought.to_owned(),
        signature: None,
    }
}

fn text(text: &str) -> Block {
    Block::Text(text.to_owned())
}

fn call(id: &str, name: &str, input: &str) -> Block {
    Block::ToolUse {
        id: id.to_owned(),
        name: name.to_owned(),
        input: input.to_owned(),
    }
}

fn todo(content: &str, status: TodoStatus) -> Todo {
    Todo {
        status,
        ..Todo::pending(content)
    }
}
