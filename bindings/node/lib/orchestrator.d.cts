import { Cleaned, CostReport, Entry, Repaired, SessionInfo, Store, StoreOptions } from "./index.cjs";

export interface OrchestratorSession {
  readonly store: Store;
  /** Appends a record of the layout, such as `{ type: "user", content }`; the time is added. */
  append(record: { type: string; [member: string]: unknown }): Promise<Entry>;
  /** Returns the messages of a day (`2026-11-18`), today by default: none if nothing was written. */
  load(day?: string): Promise<Entry[]>;
  sessions(): Promise<SessionInfo[]>;
  /** Returns tokens and exact cost by `day`, `model`, `session` … */
  usage(by?: string | string[]): Promise<CostReport>;
  state(id: string): Promise<SessionInfo["state"]>;
  /** Repairs damaged logs; the original bytes are kept. */
  recover(options?: { apply?: boolean }): Promise<Repaired[]>;
  /** Finds sessions that were not used for some days; with `apply` moves them to the trash. */
  cleanup(options?: { olderThanDays?: number; apply?: boolean }): Promise<Cleaned[]>;
  close(): Promise<void>;
}

/** Opens the logs of a project, one for each day. */
export function open(projectPath: string, options?: StoreOptions & { root?: string }): OrchestratorSession;
