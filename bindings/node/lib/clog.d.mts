export * from "./clog.cjs";
