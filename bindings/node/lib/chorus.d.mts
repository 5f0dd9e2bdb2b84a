export * from "./chorus.cjs";
