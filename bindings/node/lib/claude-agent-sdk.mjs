import adapter from "./claude-agent-sdk.cjs";

export const { SessionStore } = adapter;
