import adapter from "./orchestrator.cjs";

export const { open } = adapter;
