//! Queries that make one record of each session, and one of each message with its parts.
//!
//! A session comes before its messages, and the oldest session first. A record of a sub-agent names
//! the session at the top and the sub-agent, `SESSION--agent-AGENT`, as in other shared logs. Values
//! that are not valid JSON become strings.

use crate::model::RowFormat;

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

pub(super) static FORMAT: RowFormat = RowFormat {
    name: "opencode",
    tables: &["session", "message", "part"],
    keys: "SELECT kind, row FROM (\
           SELECT 0 AS kind, rowid AS row, time_created AS started, id AS session, 0 AS time, '' AS id FROM session \
           UNION ALL \
           SELECT 1, m.rowid, s.time_created, m.session_id, m.time_created, m.id \
           FROM message m LEFT JOIN session s ON s.id = m.session_id) \
           ORDER BY started, session, kind, time, id",
    records: &[
        concat!(
            "SELECT json_object('type', 'session', 'session', ",
            name!("t.id"),
            ", 'id', CAST(t.id AS TEXT), 'parent', CAST(t.parent_id AS TEXT)",
            ", 'directory', CAST(t.directory AS TEXT), 'title', CAST(t.title AS TEXT)",
            ", 'version', CAST(t.version AS TEXT), 'agent', CAST(t.agent AS TEXT)",
            ", 'created', CAST(t.time_created AS INTEGER), 'updated', CAST(t.time_updated AS INTEGER)",
            ") FROM session t WHERE t.rowid = ?1"
        ),
        concat!(
            "SELECT json_object('type', 'message', 'session', coalesce(",
            name!("m.session_id"),
            ", CAST(m.session_id AS TEXT)), 'id', CAST(m.id AS TEXT)",
            ", 'created', CAST(m.time_created AS INTEGER)",
            ", 'started', (SELECT CAST(time_created AS INTEGER) FROM session WHERE id = m.session_id), 'data', ",
            json!("m.data"),
            ", 'parts', json((SELECT json_group_array(json(part)) FROM (",
            "SELECT json_object('id', CAST(p.id AS TEXT), 'data', ",
            json!("p.data"),
            ") AS part FROM part p WHERE p.message_id = m.id ORDER BY p.id))))",
            " FROM message m WHERE m.rowid = ?1"
        ),
    ],
};
