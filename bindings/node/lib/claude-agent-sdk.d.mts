export * from "./claude-agent-sdk.cjs";
