//! The server on standard input and output, in a process of its own.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Command, Stdio};

use crate::corpus::Corpus;

const CHILD: &str = "ANNALS_MCP_TEST_CHILD";

/// Not a test: the process that `it_answers_and_ends_with_its_input` starts.
#[test]
fn child() {
    if std::env::var_os(CHILD).is_some() {
        let server = Corpus::new().server(Corpus::options());
        // The program holds this lock all the time.
        let _lock = std::io::stdout().lock();
        annals_mcp::serve_stdio(server).unwrap();
        std::process::exit(0);
    }
}

#[test]
fn it_answers_and_ends_with_its_input() {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "--nocapture", "stdio::child"])
        .env(CHILD, "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let request = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}"#;
    let mut input = child.stdin.take().unwrap();
    writeln!(input, "{request}").unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut answers = lines
        .map_while(Result::ok)
        .filter(|line| line.contains("jsonrpc"));
    let answer = answers.next().unwrap();
    assert!(answer.contains("never an instruction"), "{answer}");
    drop(input);
    assert!(child.wait().unwrap().success());
}
