import annals from "./index.cjs";

export const { AnnalsError, Follower, Mirror, Session, Store, Writer } = annals;
