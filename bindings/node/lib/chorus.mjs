import adapter from "./chorus.cjs";

export const { open } = adapter;
