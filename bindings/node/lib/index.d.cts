// The Node API of annals. Node >= 20, Node-API 8, ESM and CJS. Rows have the keys of `annals … --json`; those
// named here are always there, and some rows have more.
// Everything that touches a disk is a promise and runs on libuv's pool; …Sync twins exist where services are synchronous.
export type Durability = "disk" | "os";
export type Role = "user" | "assistant" | "system";
export type Order = "relevance" | "newest" | "oldest";
/** RFC 3339, a day, a span such as "7d", or a Date. */
export type Time = string | Date;
export type Block = Record<string, unknown>;
/** Members of rows that are not named here. */
export interface Row { [member: string]: unknown }
export class AnnalsError extends Error {
  readonly kind: "not_found" | "ambiguous" | "refused" | "busy" | "poisoned" | "io" | "bad_input";
  readonly path?: string;
  readonly candidates: string[];
}
export interface Usage { input?: number; output?: number; cache_write_5m?: number; cache_write_1h?: number; cache_read?: number; web_searches?: number }
/** Counts as the Messages API spells them. */
export interface ApiUsage { input_tokens: number; output_tokens: number; [member: string]: unknown }
/** A message as the Messages API spells it. */
export interface ApiMessage { role: "user" | "assistant"; content: Block[] }
/** What `annals append` reads, one line each. */
export interface Draft { role: Role; content: string | Block[]; model?: string; usage?: Usage | ApiUsage; id?: string; parent?: string; timestamp?: Time; stop_reason?: string; message_id?: string; request_id?: string; /** Members that only the layout has. */ [member: string]: unknown }
export interface Todo { content: string; status: "pending" | "in_progress" | "completed"; activeForm?: string; priority?: string; id?: string }
export interface Entry extends Row { id: string | null; parent: string | null; time: string | null; agent: string | null; kind: string; role: Role | null; model: string | null; blocks: Block[]; usage: Usage | null; cost_usd: string | null; line: number | null; offset: number }
export interface SessionInfo extends Row { layout: string; root: string; project: string; id: string; file: string; title: string | null; tag: string | null; pinned: boolean; state: "created" | "active" | "resumed" | "expired" | "deleted"; started: string | null; updated: string | null; expires: string | null; archived: boolean; entries: number; messages: number; conversations: number; agents: number; bytes: number; flaws: number; models: string[]; usage: Usage; cost_usd: string | null; unpriced: number }
export interface Project extends Row { layout: string; root: string; id: string; path: string; name: string; sessions: number; bytes: number; updated: string | null }
export interface Conversation extends Row { id: string; session: string; leaf: string; title: string | null; branch: string | null; messages: number; started: string | null; updated: string | null; resumes: boolean; usage: Usage; cost_usd: string | null }
export interface Agent { id: string | null; kind: string | null; description: string | null; call: string | null; messages: number; cost_usd: string | null }
export interface Flaw extends Row { kind: string; line: number; offset: number; length: number; detail: string }
export interface Hit extends Row { id: string; session: string; entry: string | null; layout: string; file: string; line: number; role: Role | null; part: string | null; tool: string | null; time: string | null; score: number; snippet: string; matches: [number, number][]; /** With `context`. */ before?: Entry[]; after?: Entry[] }
export interface Found { hits: Hit[]; total: number; at_least: boolean; sessions: number; truncated: boolean }
export interface CostRow extends Row { key: string; requests: number; input: number; output: number; cache_write_5m: number; cache_write_1h: number; cache_read: number; web_searches: number; cost_usd: string | null; unpriced: number }
export interface CostReport extends Row { by: string[]; zone: string; rows: CostRow[]; total: Omit<CostRow, "key">; unpriced_models: (string | null)[] }
export interface FileVersion { path: string; version: number; time: string | null; entry: string | null; bytes: number | null }
export interface Counted { messages: number; responses: number; usage: Usage }
export interface Stats { total: Counted; by_agent: Record<string, Counted>; by_model: Record<string, Counted>; by_hour: Record<string, Counted>; by_day: Record<string, Counted> }
export interface Trashed { id: string; session: string; files: number; bytes: number }
export interface FileReport extends Row { path: string; lines: number; valid: number; flaws: Flaw[] }
export interface Converted { sessions: number; /** What the target lacks. */ lost: string[] }
export interface Event { kind: "entry" | "caught_up" | "began" | "reset" | "gone" | "polling" | "trouble"; session: string | null; agent: string | null; file: string | null; entry: Entry | null; earlier: boolean; /** Where `follow({ since })` goes on without loss. Null if more than 64 logs are followed, or documents and databases. */ cursor: string | null; why: string | null }
export interface Root { layout: string; path: string }
export interface SessionFilter { project?: string; since?: Time; until?: Time; state?: string; text?: string; tag?: string; model?: string; offset?: number; limit?: number }
export interface MessageFilter { role?: Role; kind?: string; since?: Time; until?: Time; text?: string; agent?: string; leaf?: string; /** Every message of the log in file order. */ allBranches?: boolean; offset?: number; limit?: number; budget?: number }

export interface SearchOptions { limit?: number; offset?: number; context?: number; order?: Order; regex?: boolean; project?: string; since?: Time; until?: Time; /** Stop when `limit` hits are found. */ first?: boolean; signal?: AbortSignal }
export interface StoreOptions { state?: string; index?: boolean; zone?: string; prices?: string }
export interface WriteOptions { durability?: Durability; live?: boolean; /** Write even on a network file system. */ network?: boolean }
export interface BeginOptions extends WriteOptions { root?: number; id?: string; title?: string; /** `WORKSPACE/AGENT`, in Chorus. */ folder?: string; /** Members that only the layout has. */ members?: Record<string, unknown> }

export class Store {
  /** A root as a text is a path whose layout is detected, or `LAYOUT:PATH`. The index and the trash are in `state`. */
  constructor(roots: (Root | string)[], options?: StoreOptions);
  static discover(env?: Record<string, string | undefined>, cwd?: string, options?: StoreOptions): Store;
  readonly roots: Root[];
  begin(cwd: string, options?: BeginOptions): Promise<Writer>;
  beginSync(cwd: string, options?: BeginOptions): Writer;
  resume(id: string, options?: WriteOptions): Promise<Writer>;
  resumeSync(id: string, options?: WriteOptions): Writer;
  /** Returns the id of the new session: `to`, or a generated one. */
  fork(id: string, at?: string, options?: { title?: string; to?: string }): Promise<string>;
  delete(id: string): Promise<Trashed>;
  deleteSync(id: string): Trashed;
  undelete(id: string): Promise<void>;
  reset(project: string, options?: { plan?: boolean }): Promise<Trashed[]>;
  mirror(project: string, session: string, sub?: string, options?: WriteOptions): Mirror;
  convert(into: Root, options?: { sessions?: string[] }): Promise<Converted>;
  session(id: string): Promise<Session>;
  sessionSync(id: string): Session;
  tail(id: string, messages: number): Promise<Session>;
  sessions(filter?: SessionFilter): Promise<SessionInfo[]>;
  sessionsSync(filter?: SessionFilter): SessionInfo[];
  projects(): Promise<Project[]>;
  conversations(id: string): Promise<Conversation[]>;
  search(query: string, options?: SearchOptions): Promise<Found>;
  /** Indexes text that was written since, so that searches read less. */
  updateIndex(): Promise<void>;
  cost(by?: string | string[], options?: { since?: Time; until?: Time; project?: string; session?: string; model?: string; top?: number }): Promise<CostReport>;
  follow(options?: { project?: string; session?: string; last?: number; since?: string; signal?: AbortSignal }): Follower;
  check(id?: string): Promise<FileReport[]>;
  /** Sets members of a session's row in the session list of its layout. */
  setMembersSync(id: string, members: Record<string, unknown>): void;
  /** Sessions that were not used for some days; with `apply` they go to the trash. */
  clean(options: { olderThanDays: number; project?: string; apply?: boolean }): Promise<Cleaned[]>;
  /** Damaged files of sessions; with `apply` they are repaired and the original bytes kept. */
  repair(sessions: string[], options?: { apply?: boolean }): Promise<Repaired[]>;
  /** A state document of a program such as clog; null if there is none. */
  state(name: string, options?: { root?: number }): Promise<unknown>;
  /** Creates or replaces a state document. */
  setState(name: string, value: unknown, options?: { root?: number }): Promise<void>;
  /** Appends text to the log of the run that started at a time, and returns the path of the log. */
  writeRunLog(started: Time, text: string, options?: { root?: number }): Promise<string>;
  /** What could not be read since the last call. */
  takeFailures(): string[];
}
export interface Cleaned { session: string; files: number; updated: string }
export interface Repaired { path: string; bytes: number; bytes_after: number }
/** Events of logs as they are written. Leaving the loop closes it. */
export class Follower implements AsyncIterableIterator<Event> {
  next(): Promise<IteratorResult<Event, undefined>>;
  return(value?: unknown): Promise<IteratorResult<Event, undefined>>;
  close(): void;
  [Symbol.asyncIterator](): this;
  [Symbol.asyncDispose](): Promise<void>;
}
export class Writer {
  readonly id: string;
  readonly agent: string | null;
  readonly path: string;
  readonly leaf: string | null;
  /** One write, all or none; a string is a prompt. */
  append(...drafts: (Draft | string)[]): Promise<Entry[]>;
  appendSync(...drafts: (Draft | string)[]): Entry[];
  /** Whole records of the layout, as they are. */
  appendRaw(...records: Record<string, unknown>[]): Promise<Entry[]>;
  appendRawSync(...records: Record<string, unknown>[]): Entry[];
  user(text: string, options?: { parent?: string; id?: string; timestamp?: Time }): Promise<Entry>;
  userSync(text: string, options?: { parent?: string; id?: string; timestamp?: Time }): Entry;
  assistant(content: string | Block[], options?: { model?: string; usage?: Usage | ApiUsage; parent?: string; id?: string; message_id?: string; timestamp?: Time }): Promise<Entry[]>;
  assistantSync(content: string | Block[], options?: { model?: string; usage?: Usage | ApiUsage; parent?: string; id?: string; message_id?: string; timestamp?: Time }): Entry[];
  toolResult(call: string, output: string | Block[], options?: { isError?: boolean }): Promise<Entry>;
  delegate(call: string, kind: string, description: string): Promise<Writer>;
  setTodos(todos: Todo[]): Promise<void>;
  retitle(text: string): Promise<void>;
  retitleSync(text: string): void;
  tag(text: string): Promise<void>;
  note(text: string): Promise<Entry>;
  compact(summary: string, tokens?: number): Promise<Entry[]>;
  totals(): Counted;
  close(): Promise<void>;
  closeSync(): void;
  [Symbol.asyncDispose](): Promise<void>;
}
/** As it was when it was read; grow() reads what was appended since. */
export class Session {
  readonly info: SessionInfo;
  readonly conversations: Conversation[];
  readonly agents: Agent[];
  readonly flaws: Flaw[];
  grow(): Promise<boolean>;
  messages(filter?: MessageFilter): Promise<Entry[]>;
  messagesSync(filter?: MessageFilter): Entry[];
  message(id: string): Promise<Entry>;
  ancestry(id: string): Promise<Entry[]>;
  /** Messages as the agent would send them to its model before the next prompt, or after `leaf`. */
  context(leaf?: string): Promise<ApiMessage[]>;
  raw(id: string): Promise<Uint8Array>;
  rawSync(id: string): Uint8Array;
  stats(zone?: string): Promise<Stats>;
  todos(): Promise<Record<string, Todo[]>>;
  files(): Promise<FileVersion[]>;
  file(path: string, version: number): Promise<Uint8Array>;
  /** An exact decimal, as everywhere. */
  cost(): Promise<string | null>;
}
/** Whole lines of the layout, as they are; a uuid that stands there already is skipped. */
export class Mirror {
  readonly path: string;
  append(lines: (Uint8Array | Record<string, unknown>)[]): Promise<number>;
  load(): Promise<Uint8Array[] | null>;
  subs(): Promise<string[]>;
  delete(): Promise<void>;
}
