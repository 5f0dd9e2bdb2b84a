//! Arguments that become requests.

use annals::cost::Dimension;
use annals::jsonl::Durability;
use annals::model::Role;
use annals::search::Order;
use annals::service::Service;
use annals::store::WriteOptions;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use pyo3::prelude::*;

use crate::error::{Failure, Result};
use crate::value::Time;

/// One name or several.
#[derive(FromPyObject)]
pub(crate) enum Names {
    One(String),
    Several(Vec<String>),
}

impl Names {
    pub(crate) fn dimensions(&self) -> Result<Vec<Dimension>> {
        match self {
            Names::One(names) => names.split(',').map(dimension).collect(),
            Names::Several(names) => names.iter().map(|name| dimension(name)).collect(),
        }
    }
}

fn dimension(name: &str) -> Result<Dimension> {
    let name = name.trim();
    let mut all = Dimension::ALL.into_iter();
    let found = all.find(|it| it.name() == name || it.member() == name);
    found.ok_or_else(|| {
        let names = Dimension::ALL.map(Dimension::name).join(", ");
        unknown("dimension", name, &names)
    })
}

pub(crate) fn write_options(durability: &str, live: bool) -> Result<WriteOptions> {
    Ok(WriteOptions {
        durability: match durability {
            "disk" => Durability::Disk,
            "os" => Durability::Os,
            other => return Err(unknown("durability", other, "disk, os")),
        },
        live,
        ..WriteOptions::default()
    })
}

pub(crate) fn role(name: &str) -> Result<Role> {
    match name {
        "user" => Ok(Role::User),
        "assistant" => Ok(Role::Assistant),
        "system" => Ok(Role::System),
        other => Err(unknown("role", other, "user, assistant, system")),
    }
}

pub(crate) fn order(name: &str) -> Result<Order> {
    match name {
        "relevance" => Ok(Order::Relevance),
        "newest" => Ok(Order::Newest),
        "oldest" => Ok(Order::Oldest),
        other => Err(unknown("order", other, "relevance, newest, oldest")),
    }
}

pub(crate) fn since(service: &Service, time: Option<Time>) -> Result<Option<Timestamp>> {
    let time = time.map(|Time(text)| service.parse_since(&text));
    time.transpose().map_err(bad_input)
}

pub(crate) fn until(service: &Service, time: Option<Time>) -> Result<Option<Timestamp>> {
    let time = time.map(|Time(text)| service.parse_until(&text));
    time.transpose().map_err(bad_input)
}

pub(crate) fn zone(name: &str) -> Result<TimeZone> {
    let zone = TimeZone::get(name);
    zone.map_err(|error| Failure::BadInput(format!("unknown time zone `{name}`: {error}")))
}

fn unknown(what: &str, name: &str, expected: &str) -> Failure {
    Failure::BadInput(format!(
        "unknown {what} `{name}`; expected one of: {expected}"
    ))
}

fn bad_input(error: annals::Error) -> Failure {
    Failure::BadInput(error.to_string())
}
