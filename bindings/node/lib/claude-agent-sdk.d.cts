import { Store } from "./index.cjs";

export type SessionKey = { projectKey: string; sessionId: string; subpath?: string };
export type SessionStoreEntry = { type: string; uuid?: string; timestamp?: string; [member: string]: unknown };
export type SessionSummaryEntry = { sessionId: string; mtime: number; data: Record<string, unknown> };
export type FoldSessionSummary = (
  previous: SessionSummaryEntry | undefined,
  key: SessionKey,
  entries: SessionStoreEntry[],
  options?: { mtime?: number },
) => SessionSummaryEntry;

/** The `SessionStore` of `@anthropic-ai/claude-agent-sdk`: transcripts as logs of Claude Code. */
export class SessionStore {
  /** `listSessionSummaries` exists if `state`, a directory, and the SDK's `foldSessionSummary` are given. */
  constructor(store: Store, options?: { state?: string; foldSessionSummary?: FoldSessionSummary });
  append(key: SessionKey, entries: SessionStoreEntry[]): Promise<void>;
  load(key: SessionKey): Promise<SessionStoreEntry[] | null>;
  listSessions(projectKey: string): Promise<{ sessionId: string; mtime: number }[]>;
  listSessionSummaries?(projectKey: string): Promise<SessionSummaryEntry[]>;
  delete(key: SessionKey): Promise<void>;
  listSubkeys(key: { projectKey: string; sessionId: string }): Promise<string[]>;
}
