import { Entry, MessageFilter, Role, Store, StoreOptions, Trashed } from "./index.cjs";

export interface ClogMessage { messageId: string; role: Role; channel: string | null; content: string; createdAt: number }
export interface NewMessage { messageId?: string; role: Role; channel?: string; content: string; /** In milliseconds. */ createdAt?: number }
export interface ThreadRow { threadId: string; conversationId: string; channel: string | null; title: string | null; messages: number; createdAt: number; updatedAt: number }
export interface Thread {
  readonly threadId: string;
  readonly conversationId: string;
  /** Appends a message. One whose `messageId` exists is refused. */
  append(message: NewMessage): Promise<Entry>;
  note(content: string): Promise<Entry>;
  retitle(title: string): Promise<void>;
  close(): Promise<void>;
}
export interface FileStore {
  readonly store: Store;
  createThread(thread: { threadId: string; channel?: string; title?: string }): Promise<Thread>;
  /** Opens a thread by its id or its conversation's. */
  thread(id: string): Promise<Thread>;
  threads(): Promise<ThreadRow[]>;
  messages(id: string, filter?: MessageFilter): Promise<ClogMessage[]>;
  /** Returns the id of the new thread. */
  fork(id: string, messageId: string): Promise<string>;
  /** Moves a thread to the trash. */
  delete(id: string): Promise<Trashed>;
  readonly state: { get(name: string): Promise<unknown>; set(name: string, value: unknown): Promise<void> };
  runLog(started?: Date): { write(text: string): Promise<string> };
}

/** Opens `storage`; `cwd` is the directory that new threads record. */
export function open(root: string, options?: StoreOptions & { cwd?: string }): FileStore;
