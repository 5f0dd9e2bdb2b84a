//! Arguments of calls.

use std::collections::BTreeMap;

use annals::cost::Dimension;
use annals::jsonl::Durability;
use annals::model::{Members, Role};
use annals::search::Order;
use annals::service::{
    BeginRequest, CostRequest, FollowRequest, MessagesRequest, SearchRequest, Service,
    SessionsRequest,
};
use annals::store::{MessageFilter, Root, SessionQuery, WriteOptions};
use annals::view::PageRequest;
use jiff::Timestamp;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use crate::error::{Failure, Result};

/// Parses the arguments of a call.
pub(crate) fn parse<T: DeserializeOwned>(request: &str) -> Result<T> {
    Ok(serde_json::from_str(request)?)
}

/// A root: a path whose layout is detected, `LAYOUT:PATH`, or both.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(crate) enum RootArgument {
    Text(String),
    Named { layout: String, path: String },
}

impl RootArgument {
    pub(crate) fn roots(&self) -> Result<Vec<Root>> {
        let mut roots = match self {
            RootArgument::Text(text) => Root::parse(text)?,
            RootArgument::Named { layout, path } => vec![Root::new(layout, path)?],
        };
        // The trash stores absolute paths.
        for root in &mut roots {
            if let Ok(path) = std::path::absolute(&root.path) {
                root.path = path;
            }
        }
        Ok(roots)
    }
}

/// Options of a store.
#[derive(Debug, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct StoreOptions {
    pub(crate) roots: Vec<RootArgument>,
    /// Find roots instead: in `vars`, below `home`, around `cwd`.
    pub(crate) discover: bool,
    pub(crate) vars: BTreeMap<String, String>,
    pub(crate) home: Option<String>,
    pub(crate) cwd: Option<String>,
    pub(crate) state: Option<String>,
    pub(crate) index: bool,
    pub(crate) zone: Option<String>,
    pub(crate) prices: Option<String>,
}

impl Default for StoreOptions {
    fn default() -> Self {
        StoreOptions {
            roots: Vec::new(),
            discover: false,
            vars: Default::default(),
            home: None,
            cwd: None,
            state: None,
            index: true,
            zone: None,
            prices: None,
        }
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct WriteArguments {
    durability: Option<String>,
    live: bool,
    network: bool,
}

impl WriteArguments {
    pub(crate) fn options(&self) -> Result<WriteOptions> {
        Ok(WriteOptions {
            durability: match self.durability.as_deref() {
                None | Some("disk") => Durability::Disk,
                Some("os") => Durability::Os,
                Some(other) => return Err(unknown("durability", other, "disk, os")),
            },
            live: self.live,
            network: self.network,
            ..WriteOptions::default()
        })
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct BeginArguments {
    cwd: String,
    root: usize,
    id: Option<String>,
    title: Option<String>,
    folder: Option<String>,
    members: BTreeMap<String, Box<RawValue>>,
    write: WriteArguments,
}

impl BeginArguments {
    pub(crate) fn request(self) -> Result<BeginRequest> {
        Ok(BeginRequest {
            cwd: self.cwd,
            root: self.root,
            id: self.id,
            title: self.title,
            folder: self.folder,
            members: members(self.members),
            options: self.write.options()?,
        })
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct SessionsArguments {
    project: Option<String>,
    since: Option<String>,
    until: Option<String>,
    state: Option<String>,
    text: Option<String>,
    tag: Option<String>,
    model: Option<String>,
    offset: usize,
    limit: Option<usize>,
}

impl SessionsArguments {
    pub(crate) fn request(self, service: &Service) -> Result<SessionsRequest> {
        let query = SessionQuery {
            since: since(service, &self.since)?,
            until: until(service, &self.until)?,
            state: self.state,
            model: self.model,
            tag: self.tag,
            text: self.text,
            ..SessionQuery::default()
        };
        Ok(SessionsRequest {
            project: self.project,
            query,
            offset: self.offset,
            limit: self.limit,
        })
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct MessagesArguments {
    role: Option<String>,
    kind: Option<String>,
    since: Option<String>,
    until: Option<String>,
    text: Option<String>,
    agent: Option<String>,
    leaf: Option<String>,
    all_branches: bool,
    offset: Option<usize>,
    limit: Option<usize>,
    budget: Option<u64>,
}

impl MessagesArguments {
    pub(crate) fn request(self, service: &Service) -> Result<MessagesRequest> {
        let role = match self.role.as_deref() {
            None => None,
            Some("user") => Some(Role::User),
            Some("assistant") => Some(Role::Assistant),
            Some("system") => Some(Role::System),
            Some(other) => return Err(unknown("role", other, "user, assistant, system")),
        };
        let filter = MessageFilter {
            role,
            kind: self.kind,
            since: since(service, &self.since)?,
            until: until(service, &self.until)?,
            text: self.text,
            agent: self.agent,
        };
        Ok(MessagesRequest {
            filter,
            leaf: self.leaf,
            all_branches: self.all_branches,
            page: PageRequest {
                offset: self.offset,
                limit: self.limit,
                budget: self.budget,
            },
        })
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct SearchArguments {
    query: String,
    limit: Option<usize>,
    offset: usize,
    context: usize,
    order: Option<String>,
    regex: bool,
    project: Option<String>,
    since: Option<String>,
    until: Option<String>,
    first: bool,
}

impl SearchArguments {
    pub(crate) fn request(self, service: &Service) -> Result<SearchRequest> {
        let mut request = SearchRequest::new(self.query);
        request.order = match self.order.as_deref() {
            None => None,
            Some("relevance") => Some(Order::Relevance),
            Some("newest") => Some(Order::Newest),
            Some("oldest") => Some(Order::Oldest),
            Some(other) => return Err(unknown("order", other, "relevance, newest, oldest")),
        };
        request.limit = self.limit.unwrap_or(request.limit);
        request.offset = self.offset;
        request.context = self.context;
        request.regex = self.regex;
        request.project = self.project;
        request.since = since(service, &self.since)?;
        request.until = until(service, &self.until)?;
        let hits = request.offset.saturating_add(request.limit);
        request.first = self.first.then_some(hits);
        Ok(request)
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct CostArguments {
    by: Option<Names>,
    since: Option<String>,
    until: Option<String>,
    project: Option<String>,
    session: Option<String>,
    model: Option<String>,
    top: Option<usize>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Names {
    One(String),
    Several(Vec<String>),
}

impl CostArguments {
    pub(crate) fn request(self, service: &Service) -> Result<CostRequest> {
        let mut request = CostRequest::default();
        let names = match self.by {
            None => Vec::new(),
            Some(Names::One(names)) => names.split(',').map(str::to_owned).collect(),
            Some(Names::Several(names)) => names,
        };
        if !names.is_empty() {
            let by = names.iter().map(|name| dimension(name.trim()));
            request.by = by.collect::<Result<_>>()?;
        }
        request.since = since(service, &self.since)?;
        request.until = until(service, &self.until)?;
        request.project = self.project;
        request.session = self.session;
        request.model = self.model;
        request.top = self.top;
        Ok(request)
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct FollowArguments {
    project: Option<String>,
    session: Option<String>,
    last: usize,
    since: Option<String>,
}

impl FollowArguments {
    pub(crate) fn request(self) -> FollowRequest {
        FollowRequest {
            project: self.project,
            session: self.session,
            last: self.last,
            since: self.since,
        }
    }
}

/// Converts members that only a layout has.
pub(crate) fn members(given: BTreeMap<String, Box<RawValue>>) -> Members {
    let members = given.into_iter();
    members
        .map(|(name, json)| (name, json.get().to_owned()))
        .collect()
}

fn dimension(name: &str) -> Result<Dimension> {
    let mut all = Dimension::ALL.into_iter();
    let found = all.find(|it| it.name() == name || it.member() == name);
    found.ok_or_else(|| {
        let names = Dimension::ALL.map(Dimension::name).join(", ");
        unknown("dimension", name, &names)
    })
}

fn since(service: &Service, text: &Option<String>) -> Result<Option<Timestamp>> {
    let time = text.as_deref().map(|text| service.parse_since(text));
    time.transpose().map_err(bad_time)
}

fn until(service: &Service, text: &Option<String>) -> Result<Option<Timestamp>> {
    let time = text.as_deref().map(|text| service.parse_until(text));
    time.transpose().map_err(bad_time)
}

fn bad_time(error: annals::Error) -> Failure {
    Failure::bad_input(error.to_string())
}

pub(crate) fn unknown(what: &str, name: &str, expected: &str) -> Failure {
    Failure::bad_input(format!(
        "unknown {what} `{name}`; expected one of: {expected}"
    ))
}
