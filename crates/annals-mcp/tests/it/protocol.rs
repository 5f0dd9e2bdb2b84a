//! The protocol, with the client of the same library, in one process.

use annals_mcp::ProtocolServer;
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
    let handler = ProtocolServer::new(corpus.server(options)).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = { runtime }.enable_all().build().unwrap();
    runtime.block_on(async {
        let (near, far) = tokio::io::duplex(1 << 20);
        let server = tokio::spawn(async move { handler.serve(far).await.unwrap().waiting().await });
        let client = ().serve(near).await.unwrap();
        let found = test(&client).await;
        client.cancel().await.unwrap();
        server.await.unwrap().unwrap();
        found
    })
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
