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
    answers_to(&Corpus::new(), text.as_bytes())
}

fn answers_to(corpus: &Corpus, input: &[u8]) -> Vec<Value> {
    let server = corpus.server(Corpus::options());
    let (near, far) = UnixStream::pair().unwrap();
    // More may be answered than a socket holds.
    let reader = thread::spawn(move || {
        let lines = BufReader::new(near).lines();
        lines
            .map(|line| serde_json::from_str(&line.unwrap()).unwrap())
            .collect()
    });
    annals_mcp::serve(server, input, far).unwrap();
    reader.join().unwrap()
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

/// Returns the ids and error codes of the answers to a text, sorted; 0 for a result.
fn codes(corpus: &Corpus, text: &str) -> Vec<(String, i64)> {
    let code = |answer: &Value| {
        assert_eq!(answer["jsonrpc"], "2.0");
        assert_ne!(
            answer.get("result").is_some(),
            answer.get("error").is_some()
        );
        let code = answer["error"]["code"].as_i64().unwrap_or(0);
        (answer["id"].to_string(), code)
    };
    let mut codes: Vec<(String, i64)> = answers_to(corpus, text.as_bytes())
        .iter()
        .map(code)
        .collect();
    codes.sort();
    codes
}

const PING: &str = r#"{"jsonrpc":"2.0","id":"last","method":"ping"}"#;

#[test]
fn each_message_has_the_answer_of_the_specification() {
    let corpus = Corpus::new();
    let none: [(&str, i64); 0] = [];
    let one = |id: &'static str, code: i64| vec![(id, code)];
    let deep = "[".repeat(200_000);
    for (line, wanted) in [
        // Not JSON, and JSON that is no message.
        ("not json", one("null", -32700)),
        (
            "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"pi",
            one("null", -32700),
        ),
        (deep.as_str(), one("null", -32700)),
        ("{} {}", one("null", -32700)),
        ("[]", one("null", -32600)),
        ("17", one("null", -32600)),
        ("{}", one("null", -32600)),
        (r#"{"jsonrpc":"2.0","id":1}"#, one("1", -32600)),
        (r#"{"id":1,"method":"ping"}"#, one("1", -32600)),
        (
            r#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#,
            one("1", -32600),
        ),
        (r#"{"jsonrpc":"2.0","id":1,"method":7}"#, one("1", -32600)),
        (
            r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#,
            one("null", -32600),
        ),
        (
            r#"{"jsonrpc":"2.0","id":{},"method":"ping"}"#,
            one("null", -32600),
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":[1]}"#,
            one("1", -32602),
        ),
        // Nothing to answer.
        ("", none.to_vec()),
        (" \t\r", none.to_vec()),
        (
            r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
            none.to_vec(),
        ),
        (
            r#"{"jsonrpc":"2.0","method":"notifications/unheard_of","params":{"a":1}}"#,
            none.to_vec(),
        ),
        (
            r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":99}}"#,
            none.to_vec(),
        ),
        (
            r#"{"jsonrpc":"2.0","method":"notifications/cancelled"}"#,
            none.to_vec(),
        ),
        (r#"{"jsonrpc":"2.0","id":7,"result":{}}"#, none.to_vec()),
        (
            r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"?"}}"#,
            none.to_vec(),
        ),
        // Methods.
        (r#"{"jsonrpc":"2.0","id":-1,"method":"ping"}"#, one("-1", 0)),
        (
            r#"{"jsonrpc":"2.0","id":"a","method":"server/discover"}"#,
            one("\"a\"", -32601),
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"logging/setLevel","params":{"level":"info"}}"#,
            one("1", -32601),
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"prompts/list"}"#,
            one("1", -32601),
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"initialize"}"#,
            one("1", -32602),
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#,
            one("1", 0),
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"cursor":null}}"#,
            one("1", 0),
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"cursor":"2"}}"#,
            one("1", -32602),
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"resources/list"}"#,
            one("1", 0),
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"resources/read"}"#,
            one("1", -32602),
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"annals://ffff"}}"#,
            one("1", -32002),
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call"}"#,
            one("1", -32602),
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"rm"}}"#,
            one("1", -32602),
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"note","arguments":{}}}"#,
            one("1", -32602),
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"cost","arguments":[]}}"#,
            one("1", -32602),
        ),
        // Errors of a tool are results.
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"cost","arguments":{"by":7}}}"#,
            one("1", 0),
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"cost","_meta":{"progressToken":1}}}"#,
            one("1", 0),
        ),
    ] {
        let mut wanted: Vec<(String, i64)> = wanted
            .into_iter()
            .map(|(id, code)| (id.to_owned(), code))
            .collect();
        wanted.push(("\"last\"".to_owned(), 0));
        wanted.sort();
        let found = codes(&corpus, &format!("{line}\n{PING}\n"));
        assert_eq!(found, wanted, "{}", line.get(..200).unwrap_or(line));
    }
}

/// Revision 2025-03-26 has batches.
#[test]
fn the_answers_to_a_batch_are_one_array() {
    let call = |id: u64| {
        let arguments = json!({ "query": "zebra" });
        request(
            id,
            "tools/call",
            json!({ "name": "search", "arguments": arguments }),
        )
    };
    let note = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
    let batch = json!([call(1), note, call(2), 7, request(3, "ping", json!({}))]);
    let found = raw_answers(&format!("{batch}\n[{note}]\n{PING}\n"));
    assert_eq!(found.len(), 2, "{found:?}");
    let batched = found.iter().find_map(Value::as_array).unwrap();
    let mut ids: Vec<String> = batched.iter().map(|it| it["id"].to_string()).collect();
    ids.sort();
    assert_eq!(ids, ["1", "2", "3", "null"]);
    assert!(
        batched
            .iter()
            .filter(|it| it["id"] == 1 || it["id"] == 2)
            .all(|it| it["result"]["isError"] == false)
    );
}

#[test]
fn a_line_that_is_too_long_or_not_text_is_an_error_and_the_next_is_answered() {
    let corpus = Corpus::new();
    let long = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"ping","params":{{"a":"{}"}}}}"#,
        "x".repeat(9 << 20)
    );
    assert_eq!(
        codes(&corpus, &format!("{long}\n{PING}\n")),
        [("\"last\"".to_owned(), 0), ("null".to_owned(), -32600)]
    );
    let mut bytes = b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xff\xfe\"}\n".to_vec();
    bytes.extend_from_slice(PING.as_bytes());
    // The last line has no end.
    let found = answers_to(&corpus, &bytes);
    let found: Vec<_> = found
        .iter()
        .map(|it| (&it["id"], it["error"]["code"].as_i64()))
        .collect();
    assert_eq!(
        found,
        [(&Value::Null, Some(-32700)), (&json!("last"), None)]
    );
}

#[test]
fn calls_are_answered_although_the_input_has_ended() {
    let calls: Vec<Value> = (1..=200)
        .map(|id| {
            let params = json!({ "name": "search", "arguments": { "query": "zebra" } });
            request(id, "tools/call", params)
        })
        .collect();
    let found = answers(&calls);
    let mut ids: Vec<u64> = found.iter().map(|it| it["id"].as_u64().unwrap()).collect();
    ids.sort_unstable();
    assert_eq!(ids, (1..=200).collect::<Vec<u64>>());
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
