"use strict";
// The session storage of an orchestrator: a log for each project and day.

const os = require("node:os");
const path = require("node:path");
const { AnnalsError } = require("./native.cjs");
const { Store } = require("./store.cjs");

/** Opens the logs of a project. */
function open(projectPath, { root = path.join(os.homedir(), ".config/claude"), ...options } = {}) {
  const project = path.resolve(projectPath);
  const store = new Store([{ layout: "orchestrator", path: root }], options);
  let writer = null;
  let writerDay = null;

  const today = () => {
    const now = new Date();
    const two = (number) => String(number).padStart(2, "0");
    return `${now.getFullYear()}-${two(now.getMonth() + 1)}-${two(now.getDate())}`;
  };

  /** Returns the writer of today's log: resumed if the log exists, else begun. */
  const current = async () => {
    const day = today();
    if (writerDay !== day) {
      await writer?.close();
      writer = await store.resume(`${project}/${day}`).catch((error) => {
        if (error.kind !== "not_found") throw error;
        return store.begin(project);
      });
      writerDay = day;
    }
    return writer;
  };
  let opening = null;

  const sessions = () => store.sessions({ project });

  return {
    store,
    /** Appends a record of the layout, such as `{type: "user", content, timestamp}`. */
    append: async (record) => {
      opening = (opening ?? Promise.resolve()).then(current, current);
      const stamped = { timestamp: new Date().toISOString(), ...record };
      return (await (await opening).appendRaw(stamped))[0];
    },
    /** Returns the messages of a day, today by default. */
    load: async (day = today()) => {
      // The id of a session is a path: another text could name another log.
      if (!/^\d{4}-\d{2}-\d{2}$/.test(day)) throw new AnnalsError(`invalid day \`${day}\`; expected YYYY-MM-DD`, "bad_input");
      const session = await store.session(`${project}/${day}`).catch((error) => {
        if (error.kind !== "not_found") throw error;
      });
      return session ? session.messages() : [];
    },
    sessions,
    /** Returns tokens and exact cost by day, model, session … */
    usage: (by = "day") => store.cost(by, { project }),
    /** Returns the state of a session: created, active, resumed, expired. */
    state: async (id) => (await store.session(id)).info.state,
    /** Repairs damaged logs. The original bytes are kept in the quarantine. */
    recover: async ({ apply = true } = {}) =>
      store.repair((await sessions()).map((row) => row.id), { apply }),
    /** Finds sessions that were not used for some days; with `apply` moves them to the trash. */
    cleanup: ({ olderThanDays = 30, apply = false } = {}) =>
      store.clean({ olderThanDays, apply, project }),
    close: async () => {
      await writer?.close();
      [writer, writerDay] = [null, null];
    },
  };
}

module.exports = { open };
