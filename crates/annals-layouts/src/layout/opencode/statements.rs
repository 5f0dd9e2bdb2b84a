//! Statements that write rows of the database.

/// `?1` directory, `?2` time. The program makes this project when it is started outside of any repository.
pub(super) const PROJECT: &str = "\
    INSERT INTO project (id, worktree, time_created, time_updated, sandboxes) \
    SELECT 'global', '/', ?2, ?2, '[]' WHERE NOT EXISTS (SELECT 1 FROM project p \
    WHERE p.id = 'global' OR p.worktree = ?1 OR substr(?1, 1, length(p.worktree) + 1) = p.worktree || '/')";

/// `?1` id, `?2` directory, `?3` title, `?4` time. The project is the one with the longest worktree
/// above the directory: without a repository, `global` with `/`.
pub(super) const BEGIN: &str = "\
    INSERT INTO session (id, project_id, slug, directory, path, title, version, agent, time_created, time_updated) \
    SELECT ?1, p.id, 'annals-' || lower(hex(randomblob(4))), ?2, \
    ltrim(substr(?2, length(rtrim(p.worktree, '/')) + 1), '/'), ?3, ?5, ?6, ?4, ?4 FROM project p \
    WHERE p.id = 'global' OR p.worktree = ?2 OR substr(?2, 1, length(p.worktree) + 1) = p.worktree || '/' \
    ORDER BY length(p.worktree) DESC, p.id LIMIT 1";

/// `?1` id, `?2` session, `?3` time, `?4` data. The model is that of the session's last prompt, or that of
/// the newest session, so that the program can go on with it.
pub(super) const PROMPT: &str = "\
    INSERT INTO message (id, session_id, time_created, time_updated, data) \
    SELECT ?1, ?2, ?3, ?3, CASE WHEN model IS NULL THEN ?4 ELSE json_set(?4, '$.model', json(model)) END FROM (\
    SELECT coalesce(\
    (SELECT json_extract(m.data, '$.model') FROM message m WHERE m.session_id = ?2 AND json_valid(m.data) \
    AND json_extract(m.data, '$.role') = 'user' ORDER BY m.time_created DESC, m.id DESC LIMIT 1), \
    (SELECT json_object('providerID', json_extract(s.model, '$.providerID'), 'modelID', json_extract(s.model, '$.id')) \
    FROM session s WHERE json_valid(s.model) AND json_extract(s.model, '$.id') IS NOT NULL ORDER BY s.time_updated DESC LIMIT 1)) AS model)";

/// `?1` id, `?2` session, `?3` time, `?4` data. Its parent is the last prompt.
pub(super) const REPLY: &str = "\
    INSERT INTO message (id, session_id, time_created, time_updated, data) \
    SELECT ?1, ?2, ?3, ?3, CASE WHEN prompt IS NULL THEN ?4 ELSE json_set(?4, '$.parentID', prompt) END FROM (\
    SELECT (SELECT m.id FROM message m WHERE m.session_id = ?2 AND json_valid(m.data) \
    AND json_extract(m.data, '$.role') = 'user' ORDER BY m.time_created DESC, m.id DESC LIMIT 1) AS prompt)";

/// `?1` id, `?2` message, `?3` session, `?4` time, `?5` data.
pub(super) const PART: &str = "\
    INSERT INTO part (id, message_id, session_id, time_created, time_updated, data) \
    VALUES (?1, ?2, ?3, ?4, ?4, ?5)";

/// `?1` session, `?2` call, `?3` time, `?4` status, `?5` text, `?6` metadata. Only calls of the newest messages have no
/// result.
pub(super) const RESULT: &str = "\
    UPDATE part SET time_updated = ?3, data = json_set(data, '$.state.status', ?4, \
    CASE ?4 WHEN 'error' THEN '$.state.error' ELSE '$.state.output' END, ?5, '$.state.title', '', '$.state.metadata', \
    json(coalesce(?6, json_extract(data, '$.state.metadata'), '{}')), '$.state.time.end', ?3) \
    WHERE session_id = ?1 AND message_id IN (SELECT id FROM message WHERE session_id = ?1 \
    ORDER BY time_created DESC, id DESC LIMIT 64) \
    AND json_valid(data) AND json_extract(data, '$.type') = 'tool' AND json_extract(data, '$.callID') = ?2 \
    AND json_extract(data, '$.state.status') IN ('pending', 'running')";

/// `?1` session, `?2` time, `?3` to `?7` tokens.
pub(super) const SPEND: &str = "\
    UPDATE session SET time_updated = max(time_updated, ?2), tokens_input = tokens_input + ?3, \
    tokens_output = tokens_output + ?4, tokens_cache_read = tokens_cache_read + ?5, \
    tokens_cache_write = tokens_cache_write + ?6 WHERE id = ?1";

/// `?1` id, `?2` session, `?3` time, `?4` data.
pub(super) const NOTE_PART: &str = "\
    INSERT INTO part (id, message_id, session_id, time_created, time_updated, data) \
    SELECT ?1, m.id, ?2, ?3, ?3, ?4 FROM message m WHERE m.session_id = ?2 ORDER BY m.time_created DESC, m.id DESC LIMIT 1";

/// `?1` session, `?2` time.
pub(super) const TOUCH: &str =
    "UPDATE session SET time_updated = max(time_updated, ?2) WHERE id = ?1";

/// `?1` id, `?2` session that it works for, `?3` title, `?4` kind, `?5` time.
pub(super) const SPAWN: &str = "\
    INSERT INTO session (id, project_id, parent_id, slug, directory, path, title, version, agent, time_created, time_updated) \
    SELECT ?1, project_id, id, 'annals-' || lower(hex(randomblob(4))), directory, path, ?3, version, ?4, ?5, ?5 \
    FROM session WHERE id = ?2";

/// `?1` session, `?2` call, `?3` sub-agent.
pub(super) const SPAWNED: &str = "\
    UPDATE part SET data = json_set(data, '$.state.metadata', json_set(coalesce(json_extract(data, '$.state.metadata'), '{}'), '$.sessionId', ?3)) \
    WHERE session_id = ?1 AND json_valid(data) AND json_extract(data, '$.type') = 'tool' AND json_extract(data, '$.callID') = ?2";

/// `?1` id, `?2` source, `?3` time. The program's own forks are sessions without a parent too.
pub(super) const FORK: &str = "\
    INSERT INTO session (id, project_id, slug, directory, path, title, version, agent, model, time_created, time_updated) \
    SELECT ?1, project_id, 'annals-' || lower(hex(randomblob(4))), directory, path, title, version, agent, model, ?3, ?3 \
    FROM session WHERE id = ?2";

/// `?1` session, `?2` source, `?3` last message, `?4` ending of the new ids.
pub(super) const FORK_MESSAGES: &str = "\
    INSERT INTO message (id, session_id, time_created, time_updated, data) \
    SELECT m.id || ?4, ?1, m.time_created, m.time_updated, \
    CASE WHEN json_valid(m.data) AND json_type(m.data, '$.parentID') = 'text' \
    THEN json_set(m.data, '$.parentID', json_extract(m.data, '$.parentID') || ?4) ELSE m.data END \
    FROM message m JOIN message l ON l.id = ?3 AND l.session_id = ?2 \
    WHERE m.session_id = ?2 AND (m.time_created, m.id) <= (l.time_created, l.id)";

/// `?1` session, `?2` source, `?3` ending of the new ids, `?4` type of notes, which are not copied.
pub(super) const FORK_PARTS: &str = "\
    INSERT INTO part (id, message_id, session_id, time_created, time_updated, data) \
    SELECT p.id || ?3, p.message_id || ?3, ?1, p.time_created, p.time_updated, p.data \
    FROM message m CROSS JOIN part p ON p.message_id = substr(m.id, 1, length(m.id) - length(?3)) AND p.session_id = ?2 \
    WHERE m.session_id = ?1 AND (NOT json_valid(p.data) OR json_extract(p.data, '$.type') IS NOT ?4)";

/// `?1` session. The program's own forks have the sums of what they copied too.
pub(super) const FORK_SUMS: &str = "\
    UPDATE session SET (cost, tokens_input, tokens_output, tokens_reasoning, tokens_cache_read, tokens_cache_write) = (\
    SELECT coalesce(sum(json_extract(data, '$.cost')), 0), coalesce(sum(json_extract(data, '$.tokens.input')), 0), \
    coalesce(sum(json_extract(data, '$.tokens.output')), 0), coalesce(sum(json_extract(data, '$.tokens.reasoning')), 0), \
    coalesce(sum(json_extract(data, '$.tokens.cache.read')), 0), coalesce(sum(json_extract(data, '$.tokens.cache.write')), 0) \
    FROM message WHERE session_id = ?1 AND json_valid(data)) WHERE id = ?1";

/// `?1` record of a session. Its project is the same, if the database has it, or else that of its
/// directory.
pub(super) const SESSION_BACK: &str = "\
    INSERT INTO session (id, project_id, workspace_id, parent_id, slug, directory, path, title, version, share_url, \
    summary_additions, summary_deletions, summary_files, summary_diffs, metadata, cost, tokens_input, tokens_output, \
    tokens_reasoning, tokens_cache_read, tokens_cache_write, revert, permission, agent, model, time_created, time_updated, \
    time_compacting, time_archived) \
    SELECT r ->> 'id', p.id, r ->> '$.row.workspace_id', r ->> 'parent', coalesce(r ->> 'slug', ''), r ->> 'directory', \
    r ->> '$.row.path', r ->> 'title', r ->> 'version', r ->> '$.row.share_url', r ->> '$.row.summary_additions', \
    r ->> '$.row.summary_deletions', r ->> '$.row.summary_files', r ->> '$.row.summary_diffs', r ->> '$.row.metadata', \
    coalesce(CAST(r ->> '$.row.cost' AS REAL), 0), coalesce(r ->> '$.row.tokens_input', 0), coalesce(r ->> '$.row.tokens_output', 0), \
    coalesce(r ->> '$.row.tokens_reasoning', 0), coalesce(r ->> '$.row.tokens_cache_read', 0), \
    coalesce(r ->> '$.row.tokens_cache_write', 0), r ->> '$.row.revert', r ->> '$.row.permission', r ->> 'agent', \
    r ->> '$.row.model', r ->> 'created', r ->> 'updated', r ->> '$.row.time_compacting', r ->> '$.row.time_archived' \
    FROM (SELECT ?1 AS r) JOIN project p \
    WHERE p.id = r ->> '$.row.project_id' OR p.id = 'global' OR p.worktree = r ->> 'directory' \
    OR substr(r ->> 'directory', 1, length(p.worktree) + 1) = p.worktree || '/' \
    ORDER BY p.id = r ->> '$.row.project_id' DESC, length(p.worktree) DESC, p.id LIMIT 1";

/// `?1` record of a message, `?2` session.
pub(super) const MESSAGE_BACK: &str = "\
    INSERT INTO message (id, session_id, time_created, time_updated, data) \
    SELECT r ->> 'id', ?2, r ->> 'created', coalesce(r ->> 'updated', r ->> 'created'), r ->> 'data' FROM (SELECT ?1 AS r)";

/// `?1` record of a message, `?2` session.
pub(super) const PARTS_BACK: &str = "\
    INSERT INTO part (id, message_id, session_id, time_created, time_updated, data) \
    SELECT p.value ->> 'id', ?1 ->> 'id', ?2, coalesce(p.value ->> 'created', ?1 ->> 'created'), \
    coalesce(p.value ->> 'updated', ?1 ->> 'created'), p.value ->> 'data' FROM json_each(?1, '$.parts') p";

/// `?1` record of todos, `?2` session.
pub(super) const TODOS_BACK: &str = "\
    INSERT INTO todo (session_id, content, status, priority, position, time_created, time_updated) \
    SELECT ?2, t.value ->> 'content', t.value ->> 'status', t.value ->> 'priority', t.value ->> 'position', \
    t.value ->> 'created', t.value ->> 'updated' FROM json_each(?1, '$.todos') t";

/// `?1` session.
pub(super) const NO_TODOS: &str = "DELETE FROM todo WHERE session_id = ?1";

/// `?1` session, `?2` list, `?3` time.
pub(super) const TODOS: &str = "\
    INSERT INTO todo (session_id, content, status, priority, position, time_created, time_updated) \
    SELECT ?1, t.value ->> 'content', t.value ->> 'status', t.value ->> 'priority', t.key, ?3, ?3 FROM json_each(?2) t";

/// `?1` session, `?2` title.
pub(super) const TITLE: &str = "UPDATE session SET title = ?2 WHERE id = ?1";
