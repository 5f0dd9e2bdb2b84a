import clog from "./clog.cjs";

export const { open } = clog;
