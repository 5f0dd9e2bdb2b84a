export * from "./orchestrator.cjs";
