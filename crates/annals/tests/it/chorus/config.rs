//! config.json: decoding and editing.

use super::*;

#[test]
fn configuration_decodes_to_folders() {
    let read = |case: &str| {
        let path = fixtures().join("chorus").join(case).join("config.json");
        decode("config.json", &fs::read(path).unwrap())
    };
    let reported = |sink: &Decoded<Entry>| -> Vec<(ListSubject, Option<String>, Option<String>)> {
        let Body::SessionList(abouts) = &sink.items[0].body else {
            panic!()
        };
        let reported = |about: &annals::model::ListRow| {
            (
                about.subject.clone(),
                about.title.clone(),
                about.cwd.clone(),
            )
        };
        abouts.iter().map(reported).collect()
    };
    let folder = |name: &str, title: &str, cwd: Option<&str>| {
        (
            ListSubject::Folder(name.to_owned()),
            Some(title.to_owned()),
            cwd.map(str::to_owned),
        )
    };
    let app = [
        folder("w-app", "app", Some("/home/dev/app")),
        folder("w-app/a-main", "Main", None),
        folder("w-app/a-review", "Reviewer", None),
    ];
    let plain = read("chorus-plain");
    assert_eq!(plain.flaws, []);
    assert_eq!(reported(&plain), app);
    let odd = read("chorus-config-odd");
    assert_eq!(reported(&odd), app);
    let details: Vec<&str> = odd.flaws.iter().map(|flaw| flaw.detail.as_str()).collect();
    assert_eq!(
        details,
        [
            "duplicate workspace id `w-app`",
            "a workspace id is not a valid folder name: \"../up\"",
            "a workspace has no id",
            "a workspace has no id",
        ]
    );
    let damaged = read("chorus-config-damaged");
    assert_eq!(damaged.flaws.len(), 1);
    assert_eq!(damaged.flaws[0].kind, FlawKind::BadDocument);
    assert_eq!(reported(&damaged), []);
}

fn edited(old: Option<&str>, edit: ConfigEdit) -> Result<String, String> {
    match Config::edit(old.map(str::as_bytes), &edit) {
        Ok(bytes) => Ok(String::from_utf8(bytes).unwrap()),
        Err(error) => Err(error.to_string()),
    }
}

#[test]
fn a_configuration_is_edited_in_place() {
    let add = |path: &str| ConfigEdit::AddWorkspace {
        id: Some("w1".to_owned()),
        name: None,
        path: path.to_owned(),
    };
    let agent = |id: Option<&str>, name: &str| ConfigEdit::AddAgent {
        workspace: "w1".to_owned(),
        id: id.map(str::to_owned),
        name: name.to_owned(),
        file: None,
    };
    let new = edited(None, add("/home/dev/app")).unwrap();
    let new = edited(Some(&new), agent(None, "Code Reviewer")).unwrap();
    assert_eq!(
        new,
        r#"{
  "workspaces": [
    {
      "id": "w1",
      "name": "app",
      "path": "/home/dev/app",
      "isExpanded": true,
      "gitBranch": null,
      "isDirty": false,
      "hasSystemPrompt": false,
      "agents": [
        {
          "id": "code-reviewer",
          "name": "Code Reviewer",
          "filePath": "/home/dev/app/.claude/agents/code-reviewer.md",
          "workspaceId": "w1"
        }
      ]
    }
  ],
  "settings": {
    "rootWorkspaceDir": null,
    "theme": "dark",
    "chatSidebarCollapsed": false,
    "chatSidebarWidth": 240
  }
}
"#
    );
    let old = r#"{ "v":1e2, "workspaces" : [ {"id":"w1","x":"\u00e9","name":"old","agents":[{"id":"a"}]} , {"id":"w2"} ],"settings":{"later":[ 1 ]}}"#;
    let rename = ConfigEdit::RenameWorkspace {
        id: "w1".to_owned(),
        name: " new ".to_owned(),
    };
    assert_eq!(
        edited(Some(old), rename).unwrap(),
        old.replace("\"old\"", "\"new\"")
    );
    let remove = |id: &str| ConfigEdit::RemoveWorkspace { id: id.to_owned() };
    assert_eq!(
        edited(Some(old), remove("w1")).unwrap(),
        r#"{ "v":1e2, "workspaces" : [ {"id":"w2"} ],"settings":{"later":[ 1 ]}}"#
    );
    let remove_agent = ConfigEdit::RemoveAgent {
        workspace: "w1".to_owned(),
        id: "a".to_owned(),
    };
    assert_eq!(
        edited(Some(old), remove_agent).unwrap(),
        old.replace(r#"[{"id":"a"}]"#, "[]")
    );
    let rename_agent = ConfigEdit::RenameAgent {
        workspace: "w1".to_owned(),
        id: "a".to_owned(),
        name: "A".to_owned(),
    };
    assert_eq!(
        edited(Some(old), rename_agent).unwrap(),
        old.replace(r#"{"id":"a"}"#, r#"{"id":"a","name":"A"}"#)
    );
    let set = |key: &str, value: &str| ConfigEdit::Set {
        key: key.to_owned(),
        value: value.to_owned(),
    };
    assert_eq!(
        edited(Some(old), set("theme", "light")).unwrap(),
        old.replace("[ 1 ]}", "[ 1 ],\"theme\":\"light\"}")
    );
    let config = Config::decode(old.as_bytes()).unwrap();
    assert_eq!(config.settings.get("theme").unwrap(), "\"dark\"");
    assert_eq!(config.settings.get("chatSidebarWidth").unwrap(), "240");
    assert_eq!(config.settings.get("rootWorkspaceDir").unwrap(), "null");
    assert!(config.settings.get("colour").is_err());
    for bad in [
        set("theme", "purple"),
        set("chatSidebarWidth", "wide"),
        set("chatSidebarWidth", "-1"),
        set("chatSidebarCollapsed", "no"),
        set("colour", "red"),
        add("/elsewhere"),
        add("relative"),
        agent(Some("a"), "again"),
        agent(Some("../up"), "out"),
        agent(None, "会話"),
        agent(None, " "),
        remove("w3"),
    ] {
        let shown = format!("{bad:?}");
        assert!(edited(Some(old), bad).is_err(), "{shown}");
    }
    for damaged in [
        "",
        "[]",
        "{",
        "{\"workspaces\":7}",
        "{\"workspaces\":[{\"id\":\"w1\"},{\"id\":\"w1\"}]}",
    ] {
        assert!(edited(Some(damaged), remove("w1")).is_err(), "{damaged}");
        assert!(
            edited(Some(damaged), agent(None, "x")).is_err(),
            "{damaged}"
        );
    }
}
