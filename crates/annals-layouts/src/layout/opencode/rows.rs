//! Queries that make one record of each session, and one of each message with its parts.
//!
//! A session comes before its messages, and a reverted one has a record after them: its program would
//! resume before the message that `revert` names. Older databases lack that column; in a subquery the
//! name then means a column of the query around it, which is empty.
//!  A record of a sub-agent names the session at the top and the
//! sub-agent, `SESSION--agent-AGENT`. Values that are not valid JSON become strings.
//!
//! The state of a session must not take a scan of its parts: they are nearly all of the database. A
//! program that streams a reply changes the parts of the newest messages, sets their `time_updated`,
//! and counts in `event_sequence` (from 1.18 on), so the parts of the last messages are looked at.

use super::artifact;
use crate::model::{OptionalRows, RowFormat, RowSchema};

/// The name of a session in records: with the session at the top if it is that of a sub-agent. The
/// search upwards ends after 64 steps, so a cycle ends it.
macro_rules! name {
    ($id:literal) => {
        concat!(
            "(WITH RECURSIVE up(id, parent, depth) AS (SELECT id, parent_id, 0 FROM session WHERE id = ",
            $id,
            " UNION ALL SELECT s.id, s.parent_id, up.depth + 1 FROM session s JOIN up ON s.id = up.parent WHERE up.depth < 64)",
            " SELECT CASE CAST(id AS TEXT) WHEN CAST(",
            $id,
            " AS TEXT) THEN CAST(id AS TEXT) ELSE id || '--agent-' || ",
            $id,
            " END FROM up ORDER BY depth DESC LIMIT 1)"
        )
    };
}

/// A column with JSON.
macro_rules! json {
    ($column:literal) => {
        concat!(
            "CASE WHEN json_valid(CAST(",
            $column,
            " AS TEXT)) THEN json(CAST(",
            $column,
            " AS TEXT)) ELSE CAST(",
            $column,
            " AS TEXT) END"
        )
    };
}

/// A column of the session `?1` that older databases lack. In the inner query its name then means the
/// column of the query around it, which is empty.
macro_rules! column {
    ($name:literal) => {
        concat!(
            ", '",
            $name,
            "', (SELECT (SELECT ",
            $name,
            " FROM session WHERE rowid = ?1) FROM (SELECT NULL AS ",
            $name,
            "))"
        )
    };
}

pub(super) static FORMAT: RowFormat = RowFormat {
    // The number counts changes of the records.
    name: "opencode-2",
    file: super::DATABASE,
    tables: &["session", "message", "part"],
    counter_table: "event_sequence",
    counter: "SELECT seq FROM event_sequence WHERE aggregate_id = ?1",
    // A message may be without a row of its session. One step for each session, not for each message.
    sessions: "WITH RECURSIVE owner(id) AS (\
               SELECT min(session_id) FROM message UNION ALL \
               SELECT (SELECT min(session_id) FROM message WHERE session_id > owner.id) FROM owner WHERE owner.id IS NOT NULL) \
               SELECT CAST(id AS TEXT) FROM session UNION SELECT CAST(id AS TEXT) FROM owner WHERE id IS NOT NULL",
    state: concat!(
        "WITH newest AS (SELECT id, time_created, time_updated FROM message WHERE session_id = ?1",
        " ORDER BY time_created DESC, id DESC LIMIT 4),",
        " last AS (SELECT p.id, p.time_updated FROM newest CROSS JOIN part p WHERE p.message_id = newest.id),",
        " all_of AS (SELECT count(*) AS count, max(rowid) AS row FROM message WHERE session_id = ?1)",
        " SELECT coalesce(",
        name!("?1"),
        ", ?1), all_of.count, max(coalesce(s.time_updated, 0),",
        " coalesce((SELECT max(time_updated) FROM newest), 0), coalesce((SELECT max(time_updated) FROM last), 0)),",
        " all_of.row, (SELECT sum(time_updated) FROM newest), (SELECT sum(time_updated) FROM last),",
        " (SELECT count(*) FROM last), (SELECT max(id) FROM last), (SELECT id FROM newest LIMIT 1),",
        " s.rowid, s.time_created, s.time_updated, s.parent_id, s.directory, s.title, s.version, s.agent",
        " FROM all_of LEFT JOIN session s ON s.id = ?1 WHERE s.id IS NOT NULL OR all_of.count > 0"
    ),
    artifact,
    keys: "SELECT kind, row FROM (\
           SELECT 0 AS kind, rowid AS row, 0 AS time, '' AS id FROM session WHERE id = ?1 \
           UNION ALL \
           SELECT 1, rowid, time_created, id FROM message WHERE session_id = ?1 \
           UNION ALL \
           SELECT 2, t.rowid, 0, '' FROM session t WHERE t.id = ?1 AND json_valid(\
           (SELECT (SELECT revert FROM session WHERE id = ?1) FROM (SELECT NULL AS revert)))) \
           ORDER BY kind, time, id",
    records: &[
        concat!(
            "SELECT json_object('type', 'session', 'session', ",
            name!("t.id"),
            ", 'id', CAST(t.id AS TEXT), 'parent', CAST(t.parent_id AS TEXT)",
            ", 'directory', CAST(t.directory AS TEXT), 'title', CAST(t.title AS TEXT)",
            ", 'version', CAST(t.version AS TEXT), 'agent', CAST(t.agent AS TEXT)",
            column!("slug"),
            ", 'created', CAST(t.time_created AS INTEGER), 'updated', CAST(t.time_updated AS INTEGER)",
            // What only a conversion back to a database needs.
            ", 'row', json_object('table', 'session'",
            column!("project_id"),
            column!("workspace_id"),
            column!("path"),
            column!("share_url"),
            column!("summary_additions"),
            column!("summary_deletions"),
            column!("summary_files"),
            column!("summary_diffs"),
            column!("metadata"),
            ", 'cost', (SELECT (SELECT format('%!.17g', cost) FROM session WHERE rowid = ?1) FROM (SELECT NULL AS cost))",
            column!("tokens_input"),
            column!("tokens_output"),
            column!("tokens_reasoning"),
            column!("tokens_cache_read"),
            column!("tokens_cache_write"),
            column!("revert"),
            column!("permission"),
            column!("model"),
            column!("time_compacting"),
            column!("time_archived"),
            ")) FROM session t WHERE t.rowid = ?1"
        ),
        concat!(
            "SELECT json_object('type', 'message', 'session', coalesce(",
            name!("m.session_id"),
            ", CAST(m.session_id AS TEXT)), 'id', CAST(m.id AS TEXT)",
            ", 'created', CAST(m.time_created AS INTEGER), 'updated', CAST(m.time_updated AS INTEGER)",
            ", 'started', (SELECT CAST(time_created AS INTEGER) FROM session WHERE id = m.session_id), 'data', ",
            json!("m.data"),
            ", 'parts', json((SELECT json_group_array(json(part)) FROM (",
            "SELECT json_object('id', CAST(p.id AS TEXT), 'created', CAST(p.time_created AS INTEGER)",
            ", 'updated', CAST(p.time_updated AS INTEGER), 'data', ",
            json!("p.data"),
            ") AS part FROM part p WHERE p.message_id = m.id ORDER BY p.id))))",
            " FROM message m WHERE m.rowid = ?1"
        ),
        concat!(
            "SELECT json_object('type', 'revert', 'session', ",
            name!("t.id"),
            ", 'id', CAST(t.id AS TEXT), 'created', CAST(t.time_updated AS INTEGER)",
            ", 'parent', CAST(m.id AS TEXT), 'results', (SELECT count(*) FROM part p WHERE p.message_id = m.id",
            " AND json_valid(CAST(p.data AS TEXT)) AND p.data ->> '$.type' = 'tool'",
            " AND p.data ->> '$.state.status' IN ('completed', 'error')))",
            " FROM session t LEFT JOIN message r ON r.session_id = t.id AND r.id = json_extract(",
            "(SELECT (SELECT revert FROM session WHERE id = t.id) FROM (SELECT NULL AS revert)), '$.messageID')",
            " LEFT JOIN message m ON m.session_id = t.id AND (m.time_created, m.id) < (r.time_created, r.id)",
            " WHERE t.rowid = ?1 ORDER BY m.time_created DESC, m.id DESC LIMIT 1"
        ),
        concat!(
            "SELECT json_object('type', 'todos', 'session', ",
            name!("t.id"),
            ", 'id', CAST(t.id AS TEXT), 'created', (SELECT max(CAST(time_updated AS INTEGER)) FROM todo WHERE session_id = t.id)",
            ", 'todos', json((SELECT json_group_array(json(todo)) FROM (",
            "SELECT json_object('content', CAST(content AS TEXT), 'status', CAST(status AS TEXT)",
            ", 'priority', CAST(priority AS TEXT), 'position', CAST(position AS INTEGER)",
            ", 'created', CAST(time_created AS INTEGER), 'updated', CAST(time_updated AS INTEGER)) AS todo",
            " FROM todo WHERE session_id = t.id ORDER BY position))))",
            " FROM session t WHERE t.rowid = ?1"
        ),
    ],
    optional: Some(&TODOS),
    schema: Some(&SCHEMA),
};

static TODOS: OptionalRows = OptionalRows {
    table: "todo",
    state: "SELECT count(*), max(time_updated), sum(time_updated) FROM todo WHERE session_id = ?1",
    keys: "SELECT 3, s.rowid FROM session s WHERE s.id = ?1 AND EXISTS (SELECT 1 FROM todo WHERE session_id = s.id)",
};

/// The schema of OpenCode 1.18.
static SCHEMA: RowSchema = RowSchema {
    tables: &[
        (
            "project",
            &[
                "id",
                "worktree",
                "time_created",
                "time_updated",
                "sandboxes",
            ],
        ),
        (
            "session",
            &[
                "id",
                "project_id",
                "workspace_id",
                "parent_id",
                "slug",
                "directory",
                "path",
                "title",
                "version",
                "share_url",
                "summary_additions",
                "summary_deletions",
                "summary_files",
                "summary_diffs",
                "metadata",
                "cost",
                "tokens_input",
                "tokens_output",
                "tokens_reasoning",
                "tokens_cache_read",
                "tokens_cache_write",
                "revert",
                "permission",
                "agent",
                "model",
                "time_created",
                "time_updated",
                "time_compacting",
                "time_archived",
            ],
        ),
        (
            "message",
            &["id", "session_id", "time_created", "time_updated", "data"],
        ),
        (
            "part",
            &[
                "id",
                "message_id",
                "session_id",
                "time_created",
                "time_updated",
                "data",
            ],
        ),
        (
            "todo",
            &[
                "session_id",
                "content",
                "status",
                "priority",
                "position",
                "time_created",
                "time_updated",
            ],
        ),
    ],
    newest_migration: "SELECT max(id) FROM migration",
    known_migration: "20260622202450_simplify_session_input",
};
