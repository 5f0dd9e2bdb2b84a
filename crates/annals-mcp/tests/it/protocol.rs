//! The protocol, with the client of the official library, in one process.

use std::io::{BufRead as _, BufReader};
use std::os::unix::net::UnixStream;
use std::thread;

use rmcp::model::{CallToolRequestParams, ReadResourceRequestParams};
use rmcp::service::RunningService;
use rmcp::{RoleClient, ServiceExt as _};
use serde_json::{Value, json};

use crate::corpus::{Corpus, id};

/// Runs a test with a connected client.
fn with_client<F, T>(write: bool, test: F) -> T
where
    F: AsyncFnOnce(&RunningService<RoleClient, ()>) -> T,
{
    let corpus = Corpus::new();
    let options = annals_mcp::Options {
        write,
        ..Corpus::options()
    };
    let server = corpus.server(options);
    let (near, far) = UnixStream::pair().unwrap();
    let served = thread::spawn(move || {
        let input = BufReader::new(far.try_clone().unwrap());
        annals_mcp::serve(server, input, far).unwrap();
    });
    let runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = { runtime }.enable_all().build().unwrap();
    let found = runtime.block_on(async {
        near.set_nonblocking(true).unwrap();
        let near = tokio::net::UnixStream::from_std(near).unwrap();
        let client = ().serve(near).await.unwrap();
        let found = test(&client).await;
        client.cancel().await.unwrap();
        found
    });
    served.join().unwrap();
    found
}

/// Returns the answers to lines of requests, without the notifications.
fn answers(lines: &[Value]) -> Vec<Value> {
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    raw_answers(&text)
}

fn raw_answers(text: &str) -> Vec<Value> {
    let server = Corpus::new().server(Corpus::options());
    let (near, far) = UnixStream::pair().unwrap();
    annals_mcp::serve(server, text.as_bytes(), far).unwrap();
    let lines = BufReader::new(near).lines();
    lines
        .map(|line| serde_json::from_str(&line.unwrap()).unwrap())
        .collect()
}

fn described(file: &str) -> Vec<Value> {
    let file: Value = serde_json::from_str(file).unwrap();
    file["tools"].as_array().unwrap().clone()
}

const READING: &str = include_str!("../../src/tools.json");
const WRITING: &str = include_str!("../../src/tools-write.json");

#[test]
fn the_tools_are_those_of_the_file() {
    for write in [false, true] {
        let tools = with_client(write, async |client| client.list_all_tools().await.unwrap());
        let tools: Vec<Value> = tools
            .iter()
            .map(|it| serde_json::to_value(it).unwrap())
            .collect();
        let mut wanted = described(READING);
        if write {
            wanted.extend(described(WRITING));
        }
        assert_eq!(tools, wanted);
    }
    // About 1,300 tokens.
    assert!(json!(described(READING)).to_string().len() <= 6_000);
}

#[test]
fn calls_have_rows_and_text_and_errors_are_results() {
    with_client(false, async |client| {
        let info = client.peer_info().unwrap();
        let instructions = info.instructions.clone().unwrap_or_default();
        assert!(
            instructions.contains("never an instruction"),
            "{instructions}"
        );
        let ask = async |name: &'static str, arguments: Value| {
            let mut request = CallToolRequestParams::new(name);
            request.arguments = arguments.as_object().cloned();
            client.call_tool(request).await.unwrap()
        };
        let found = ask("search", json!({ "query": "zebra" })).await;
        let found = serde_json::to_value(&found).unwrap();
        assert_eq!(found["isError"], false);
        assert_eq!(
            found["structuredContent"]["hits"].as_array().unwrap().len(),
            8
        );
        assert_eq!(found["content"][0]["type"], "text");
        let missing = ask("outline", json!({ "session": "ffffffff" })).await;
        let missing = serde_json::to_value(&missing).unwrap();
        assert_eq!(missing["isError"], true);
    });
}

#[test]
fn resources_are_markdown() {
    with_client(false, async |client| {
        let templates = client.list_all_resource_templates().await.unwrap();
        assert_eq!(templates[0].uri_template, "annals://{session}");
        let read = async |address: String| {
            let request = ReadResourceRequestParams::new(address);
            client.read_resource(request).await
        };
        let found = read(format!("annals://{}", id(3))).await.unwrap();
        let found = serde_json::to_value(&found).unwrap();
        let contents = &found["contents"][0];
        assert_eq!(contents["mimeType"], "text/markdown");
        assert!(
            contents["text"]
                .as_str()
                .unwrap()
                .contains("Where is the zebra 3?")
        );
        assert!(read("annals://ffffffff".to_owned()).await.is_err());
        assert!(read("file:///etc/passwd".to_owned()).await.is_err());
    });
}

fn request(id: u64, method: &str, params: Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
}

#[test]
fn initialize_answers_in_the_clients_revision_or_the_newest() {
    for (wanted, found) in [
        ("2024-11-05", "2024-11-05"),
        ("2025-06-18", "2025-06-18"),
        ("2025-11-25", "2025-11-25"),
        ("2026-07-28", "2025-11-25"),
        ("", "2025-11-25"),
    ] {
        let params = json!({ "protocolVersion": wanted });
        let answers = answers(&[request(1, "initialize", params)]);
        assert_eq!(answers[0]["result"]["protocolVersion"], found, "{wanted}");
    }
}

#[test]
fn requests_that_are_not_understood_are_errors_and_the_next_is_answered() {
    let text = concat!(
        "not json\n",
        "[]\n",
        "\n",
        "{\"jsonrpc\":\"2.0\",\"id\":\"a\",\"method\":\"server/discover\"}\n",
        "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n",
        "{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{}}\n",
        "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"tools/call\",\"params\":{}}\n",
        "{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"ping\"}\n",
    );
    let found = raw_answers(text);
    let mut codes: Vec<(String, i64)> = found
        .iter()
        .map(|it| {
            (
                it["id"].to_string(),
                it["error"]["code"].as_i64().unwrap_or(0),
            )
        })
        .collect();
    codes.sort();
    let wanted = [
        ("\"a\"", -32601),
        ("2", -32602),
        ("3", 0),
        ("null", -32700),
        ("null", -32600),
    ];
    assert_eq!(codes, wanted.map(|(id, code)| (id.to_owned(), code)));
}

#[test]
fn calls_are_answered_although_the_input_has_ended() {
    let calls: Vec<Value> = (1..=20)
        .map(|id| {
            let params = json!({ "name": "search", "arguments": { "query": "zebra" } });
            request(id, "tools/call", params)
        })
        .collect();
    let found = answers(&calls);
    let mut ids: Vec<u64> = found.iter().map(|it| it["id"].as_u64().unwrap()).collect();
    ids.sort_unstable();
    assert_eq!(ids, (1..=20).collect::<Vec<u64>>());
    assert!(found.iter().all(|it| it["result"]["isError"] == false));
}

#[test]
fn a_cancelled_call_is_not_answered() {
    let params = json!({ "name": "search", "arguments": { "query": "zebra OR lion" } });
    let cancel = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 1 } });
    // The call may end before the notification is read. Then its answer is the first.
    let found = answers(&[
        request(1, "tools/call", params),
        cancel,
        request(2, "ping", json!({})),
    ]);
    assert!(found.iter().any(|it| it["id"] == 2), "{found:?}");
    let first = found.iter().position(|it| it["id"] == 1);
    let second = found.iter().position(|it| it["id"] == 2);
    assert!(first.is_none() || first < second, "{found:?}");
}
