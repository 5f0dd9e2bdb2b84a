import { Store, StoreOptions } from "./index.cjs";

export interface Conversation {
  id: string;
  sessionId: string | null;
  agentId: string;
  workspaceId: string;
  title: string;
  createdAt: string;
  updatedAt: string;
  messageCount: number;
  branchName: string | null;
}

export interface ConversationMessage {
  uuid: string;
  type: "user" | "assistant" | "tool_use" | "tool_result" | "error" | "system";
  content: string | Record<string, unknown>[];
  timestamp: string;
  [member: string]: unknown;
}

/** Members of a conversation that may change. */
export interface ConversationUpdate {
  title?: string;
  sessionId?: string | null;
  sessionCreatedAt?: string;
  branchName?: string | null;
  worktreePath?: string | null;
}

export interface ConversationService {
  readonly store: Store;
  /** Newest first. */
  listConversations(workspaceId: string, agentId: string): Conversation[];
  createConversation(
    workspaceId: string,
    agentId: string,
    options?: { title?: string; branchName?: string; sessionId?: string },
  ): Conversation;
  loadConversation(id: string): { conversation: Conversation; messages: ConversationMessage[] };
  updateConversation(id: string, update: ConversationUpdate): Conversation;
  updateConversationSettings(id: string, settings: Record<string, unknown>): void;
  appendMessage(id: string, message: ConversationMessage): void;
  /** Moves it to the trash. */
  deleteConversation(id: string): void;
  getConversationBranchName(id: string): string | null;
  deleteConversationsByBranch(branchName: string): number;
  getConversationPath(id: string): string;
}

/** Opens `.chorus`; `cwd` is the directory that new conversations record. */
export function open(root: string, options?: StoreOptions & { cwd?: string }): ConversationService;
