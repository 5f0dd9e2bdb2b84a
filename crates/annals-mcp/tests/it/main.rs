//! Tests of the server: its tools over a generated history, and the protocol with a real client.

mod corpus;
mod hostile;
mod protocol;
mod stdio;
mod tools;
