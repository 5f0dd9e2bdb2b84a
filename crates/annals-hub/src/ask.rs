//! Questions of readers: the library's own answers about the files that a reader may read.
//!
//! | request | parameters | answer |
//! |---|---|---|
//! | `/v1/sessions` | project, since, until, model, agent, tag, limit, offset | `annals sessions --json` |
//! | `/v1/conversations` | session | the rows of `annals conversations --json` |
//! | `/v1/search` | q, project, since, until, limit, offset, context | `annals search --json` |
//! | `/v1/cost` | by, since, until, project, session, model, top | `annals cost --json` |
//! | `/v1/show` | session, agent, leaf, all, limit, offset | the entries of `annals show --json` |
//!
//! Paths in answers are those on the machines.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use annals::cost::Dimension;
use annals::service::{CostRequest, MessagesRequest, SearchRequest, Service, SessionsRequest};
use annals::store::{MessageFilter, Root, SessionQuery, Store};
use annals::view::PageRequest;
use annals_segments::SourceId;
use jiff::Timestamp;
use serde::Serialize;

use crate::access::Owner;
use crate::error::{Error, Result};

/// Maximum number of hits of a search, and of rows of a page.
const MAX_ROWS: usize = 1000;

/// Roots that a question is about: the machine, the directory in the cache, and the path on the machine.
pub type Roots = Vec<(SourceId, Root, String)>;

/// A question: its name, and its parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// The verb of the program that answers it.
    pub verb: Verb,
    /// The parameters.
    pub parameters: BTreeMap<String, String>,
}

/// A verb that the hub answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names of the program's verbs")]
pub enum Verb {
    Sessions,
    Conversations,
    Search,
    Cost,
    Show,
}

/// An answer, and what it says about whom.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The JSON document.
    pub json: String,
    /// The sessions that it has content of.
    pub read: BTreeSet<(SourceId, String)>,
}

impl Verb {
    /// All verbs, with their names in addresses.
    pub const ALL: [(&'static str, Verb); 5] = [
        ("sessions", Verb::Sessions),
        ("conversations", Verb::Conversations),
        ("search", Verb::Search),
        ("cost", Verb::Cost),
        ("show", Verb::Show),
    ];

    /// Its name in addresses.
    pub fn name(self) -> &'static str {
        let known = Verb::ALL.iter().find(|(_, verb)| *verb == self);
        known.map_or("", |(name, _)| name)
    }

    fn parameters(self) -> &'static [&'static str] {
        match self {
            Verb::Sessions => &[
                "project", "since", "until", "model", "agent", "tag", "limit", "offset",
            ],
            Verb::Conversations => &["session"],
            Verb::Search => &[
                "q", "project", "since", "until", "limit", "offset", "context",
            ],
            Verb::Cost => &["by", "since", "until", "project", "session", "model", "top"],
            Verb::Show => &["session", "agent", "leaf", "all", "limit", "offset"],
        }
    }
}

impl std::fmt::Display for Question {
    /// Writes the parameters as an address has them.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut query = url::form_urlencoded::Serializer::new(String::new());
        query.extend_pairs(&self.parameters);
        f.write_str(&query.finish())
    }
}

impl Question {
    /// Parses the query of an address.
    pub fn parse(verb: Verb, query: &str) -> Result<Self> {
        let mut parameters = BTreeMap::new();
        for (name, value) in url::form_urlencoded::parse(query.as_bytes()) {
            if !verb.parameters().contains(&name.as_ref()) {
                let known = verb.parameters().join(", ");
                return Err(Error::Asked(format!(
                    "unknown parameter `{name}`; known are {known}"
                )));
            }
            if parameters
                .insert(name.to_string(), value.to_string())
                .is_some()
            {
                return Err(Error::Asked(format!(
                    "the parameter `{name}` is given twice"
                )));
            }
        }
        Ok(Question { verb, parameters })
    }

    /// Returns whether the answer has content of sessions, as opposed to sums of costs.
    pub fn needs_content(&self) -> bool {
        // Rows by these dimensions have titles, names and ids of sessions.
        let of_sessions = [
            "session",
            "agent",
            "agent-id",
            "branch",
            "git-branch",
            "project",
        ];
        let by = self.get("by").unwrap_or_default();
        let asks_sums = self.verb == Verb::Cost
            && self.get("session").is_none()
            && self.get("project").is_none();
        !asks_sums || by.split(',').any(|by| of_sessions.contains(&by))
    }

    fn get(&self, name: &str) -> Option<&str> {
        self.parameters.get(name).map(String::as_str)
    }

    fn owned(&self, name: &str) -> Option<String> {
        self.parameters.get(name).cloned()
    }

    fn number(&self, name: &str) -> Result<Option<usize>> {
        let parse = |text: &String| {
            text.parse()
                .map_err(|_| Error::Asked(format!("`{name}` must be a number")))
        };
        self.parameters.get(name).map(parse).transpose()
    }

    fn time(
        &self,
        name: &str,
        parse: impl Fn(&str) -> annals::Result<Timestamp>,
    ) -> Result<Option<Timestamp>> {
        self.get(name)
            .map(|text| parse(text).map_err(asked))
            .transpose()
    }

    fn session(&self) -> Result<&str> {
        let session = self.get("session");
        session.ok_or_else(|| Error::Asked("name a session: `session=ID`".into()))
    }

    /// Answers the question about some roots. `state` is the directory of the index.
    pub fn answer(&self, roots: &Roots, state: &Path, now: Option<Timestamp>) -> Result<Answer> {
        let store = Store::new(roots.iter().map(|(_, root, _)| root.clone()).collect());
        let mut service = Service::new(store).with_index(state).confined_to_roots();
        if let Some(now) = now {
            service = service.with_now(now);
        }
        let mut read = BTreeSet::new();
        let mut note = |path: &Path, session: &str| {
            let root = roots
                .iter()
                .find(|(_, root, _)| path.starts_with(&root.path));
            read.extend(root.map(|(source, _, _)| (*source, session.to_owned())));
        };
        let json = match self.verb {
            Verb::Sessions => {
                let found = service.sessions(&SessionsRequest {
                    project: self.owned("project"),
                    query: SessionQuery {
                        since: self.time("since", |text| service.parse_since(text))?,
                        until: self.time("until", |text| service.parse_until(text))?,
                        model: self.owned("model"),
                        agent: self.owned("agent"),
                        tag: self.owned("tag"),
                        ..SessionQuery::default()
                    },
                    offset: self.number("offset")?.unwrap_or(0),
                    limit: self.number("limit")?,
                });
                let found = found.map_err(asked)?;
                found
                    .rows
                    .iter()
                    .for_each(|row| note(&row.info.file, row.info.id.as_str()));
                #[derive(Serialize)]
                struct Sessions<T> {
                    sessions: Vec<T>,
                    total: usize,
                }
                json(&Sessions {
                    sessions: found.rows,
                    total: found.total,
                })?
            }
            Verb::Conversations => {
                let open = service.open(self.session()?).map_err(asked)?;
                note(
                    open.session.files.main_path(),
                    open.session.files.id.as_str(),
                );
                let conversations = service.conversations_of(&open);
                json(&BTreeMap::from([("conversations", conversations)]))?
            }
            Verb::Search => {
                let query = self
                    .get("q")
                    .ok_or_else(|| Error::Asked("the query is missing: `q=WORDS`".into()))?;
                let request = SearchRequest {
                    project: self.owned("project"),
                    since: self.time("since", |text| service.parse_since(text))?,
                    until: self.time("until", |text| service.parse_until(text))?,
                    limit: self.number("limit")?.unwrap_or(50).min(MAX_ROWS),
                    offset: self.number("offset")?.unwrap_or(0),
                    context: self.number("context")?.unwrap_or(0).min(20),
                    ..SearchRequest::new(query)
                };
                let found = service.search(&request, &|| false).map_err(asked)?;
                for row in &found.hits {
                    note(&row.hit.file, row.hit.session.as_str());
                }
                json(&found)?
            }
            Verb::Cost => {
                let by = self.get("by").unwrap_or("day").split(',').map(|name| {
                    let known = Dimension::ALL
                        .into_iter()
                        .find(|known| known.name() == name);
                    let names = || Dimension::ALL.map(Dimension::name).join(", ");
                    known.ok_or_else(|| {
                        Error::Asked(format!("unknown dimension `{name}`; known are {}", names()))
                    })
                });
                let request = CostRequest {
                    by: by.collect::<Result<_>>()?,
                    since: self.time("since", |text| service.parse_since(text))?,
                    until: self.time("until", |text| service.parse_until(text))?,
                    project: self.owned("project"),
                    session: self.owned("session"),
                    model: self.owned("model"),
                    sort: None,
                    top: self.number("top")?,
                };
                json(&service.cost(&request).map_err(asked)?)?
            }
            Verb::Show => {
                let open = service.open(self.session()?).map_err(asked)?;
                let id = open.session.files.id.clone();
                note(open.session.files.main_path(), id.as_str());
                let found = open.messages(&MessagesRequest {
                    filter: match self.owned("agent") {
                        Some(agent) => MessageFilter::default().agent(agent),
                        None => MessageFilter::default(),
                    },
                    leaf: self.owned("leaf"),
                    all_branches: self.get("all") == Some("1"),
                    page: PageRequest {
                        offset: self.number("offset")?,
                        limit: self.number("limit")?,
                        budget: None,
                    },
                });
                #[derive(Serialize)]
                struct Messages<E> {
                    session: annals::model::SessionId,
                    entries: Vec<E>,
                    #[serde(flatten)]
                    page: Option<annals::view::PageJson>,
                }
                let found = found.map_err(asked)?;
                json(&Messages {
                    session: id,
                    entries: found.entries,
                    page: found.page.map(|page| page.json()),
                })?
            }
        };
        Ok(Answer {
            json: on_machines(json, roots),
            read,
        })
    }
}

fn json(value: &impl Serialize) -> Result<String> {
    serde_json::to_string(value).map_err(|error| Error::Asked(error.to_string()))
}

fn asked(error: annals::Error) -> Error {
    Error::Asked(error.to_string())
}

/// Replaces directories of the cache by the paths on the machines.
fn on_machines(mut json: String, roots: &Roots) -> String {
    let spelled = |path: &str| {
        let quoted = serde_json::to_string(path).unwrap_or_default();
        quoted.trim_matches('"').to_owned()
    };
    for (_, root, on_machine) in roots {
        let cached = spelled(&root.path.to_string_lossy());
        if json.contains(&cached) {
            json = json.replace(&cached, &spelled(on_machine));
        }
    }
    json
}

/// Machines that the owner of a token may read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reads {
    /// All machines.
    All,
    /// Some machines.
    Some(BTreeSet<SourceId>),
}

impl Reads {
    /// Returns whether a machine is one of them.
    pub fn contains(&self, source: SourceId) -> bool {
        match self {
            Reads::All => true,
            Reads::Some(sources) => sources.contains(&source),
        }
    }
}

/// Returns the machines that the owner of a token may ask a question about; `None` if there are none.
pub fn readable(owner: &Owner, question: &Question) -> Option<Reads> {
    match owner {
        Owner::Machine { .. } => None,
        Owner::Person { machines, .. } => Some(Reads::Some(machines.clone())),
        Owner::Lead {
            machines,
            team,
            content,
            ..
        } => {
            let mut reads = machines.clone();
            if *content || !question.needs_content() {
                reads.extend(team);
            }
            Some(Reads::Some(reads))
        }
        Owner::Auditor { .. } => Some(Reads::All),
    }
}
