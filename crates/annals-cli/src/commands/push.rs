//! `annals push`

use std::path::PathBuf;

use annals::store::Inventory;
use annals_push::{Client, MaskPolicy, Options, Report, Status};
use anyhow::{Context as _, Result, bail};
use clap::Args;
use serde::Serialize;

use super::Outcome;
use crate::config::{HubConfig, MaskArg};
use crate::context::Context;
use crate::terminal::progress::Progress;
use annals_render::size::{bytes, count, pluralize};
use annals_render::style::{PLAIN, SUCCESS, paint};

/// Sends what grew in the logs to a hub.
#[derive(Debug, Args)]
#[command(after_help = "\
Sends whole lines that the hub does not have, and documents that changed. It can be interrupted, \
and run again weeks later. Secrets are masked unless --mask none. Sessions in databases are not \
sent. The address and the file with the token can be in config.toml ([hub] url, token-file, mask); \
then `annals keep` sends, too. See docs/HUB.md.

Examples:
  annals push --hub http://hub.example:8790 --token-file ~/.hub-token
  annals push                  to the hub of config.toml
  annals push --status         what is not sent yet")]
pub(crate) struct PushArgs {
    /// Address of the hub
    #[arg(long, value_name = "URL")]
    hub: Option<String>,
    /// File with this machine's token; without one, ANNALS_HUB_TOKEN is used
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Mask secrets before they leave the machine, or nothing [default: secrets]
    #[arg(long, value_name = "WHAT")]
    mask: Option<MaskArg>,
    /// Print what is not sent yet, and send nothing
    #[arg(long)]
    status: bool,
}

#[derive(Serialize)]
pub(super) struct PushJson {
    hub: String,
    files: usize,
    segments: usize,
    bytes: u64,
    sent: u64,
    masked: usize,
    in_databases: usize,
    failed: Vec<FailureJson>,
}

#[derive(Serialize)]
struct FailureJson {
    path: String,
    error: String,
}

#[derive(Serialize)]
struct StatusJson<'a> {
    hub: &'a str,
    known: bool,
    current: usize,
    behind: usize,
    behind_bytes: u64,
    in_databases: usize,
}

pub(crate) fn run(args: &PushArgs, context: &mut Context) -> Result<Outcome> {
    let config = context.config()?.hub;
    let hub = HubConfig {
        url: args.hub.clone().or(config.url),
        token_file: args.token_file.clone().or(config.token_file),
        mask: args.mask.or(config.mask),
    };
    let Some(url) = hub.url.clone() else {
        bail!(
            "no hub; name one with --hub, or in config.toml: [hub] url = \"http://hub.example:8790\""
        );
    };
    let inventory = context.inventory_without_archive();
    if args.status {
        let status = annals_push::status(&inventory, &url, context.state_dir())?;
        print_status(&url, &status, context)?;
        return Ok(Outcome::Ok);
    }
    let report = push(&hub, &url, &inventory, context)?;
    warn_failed(&report, context);
    print_report(&url, &report, context)?;
    Ok(Outcome::Ok)
}

impl PushJson {
    fn new(url: &str, report: &Report) -> Self {
        let failed = report.failed.iter().map(|failure| FailureJson {
            path: failure.path.display().to_string(),
            error: failure.error.clone(),
        });
        PushJson {
            hub: url.to_owned(),
            files: report.files,
            segments: report.segments,
            bytes: report.bytes,
            sent: report.sent,
            masked: report.masked,
            in_databases: report.in_databases,
            failed: failed.collect(),
        }
    }
}

/// A push by `annals keep`.
pub(super) struct HubPush {
    url: String,
    report: Report,
}

impl HubPush {
    pub(super) fn json(&self) -> PushJson {
        PushJson::new(&self.url, &self.report)
    }

    /// Prints what was sent, unless it is nothing and `quiet`.
    pub(super) fn print(&self, quiet: bool, context: &mut Context) -> Result<()> {
        match quiet && self.report.segments == 0 {
            true => Ok(()),
            false => print_report(&self.url, &self.report, context),
        }
    }
}

/// Pushes to the hub of the settings, if there is one. A failure is a warning: the next run sends what
/// this one did not.
pub(super) fn push_kept(inventory: &Inventory, context: &mut Context) -> Result<Option<HubPush>> {
    let hub = context.config()?.hub;
    let Some(url) = hub.url.clone() else {
        return Ok(None);
    };
    match push(&hub, &url, inventory, context) {
        Ok(report) => {
            warn_failed(&report, context);
            Ok(Some(HubPush { url, report }))
        }
        Err(error) => {
            let text = format!("nothing was pushed: {error:#}");
            context.warn(&annals::Error::refused(text));
            Ok(None)
        }
    }
}

fn warn_failed(report: &Report, context: &mut Context) {
    for failure in &report.failed {
        let path = failure.path.display();
        let text = format!("{path} was not pushed: {}", failure.error);
        context.warn(&annals::Error::refused(text));
    }
}

/// Pushes to a hub.
fn push(hub: &HubConfig, url: &str, inventory: &Inventory, context: &Context) -> Result<Report> {
    let token = match &hub.token_file {
        Some(file) => std::fs::read_to_string(file).with_context(|| format!("cannot read the token in {}", file.display()))?,
        None => std::env::var("ANNALS_HUB_TOKEN").ok().context(
            "no token; name its file with --token-file, or set ANNALS_HUB_TOKEN. The operator of the hub gets it from `annals-hub machine add`",
        )?,
    };
    let client = Client::new(url, &token, &annals_push::host_id(context.state_dir())?)?;
    let options = Options {
        mask: match hub.mask {
            Some(MaskArg::None) => MaskPolicy::None,
            Some(MaskArg::Secrets) | None => MaskPolicy::Secrets,
        },
        now: context.clock.now.as_second(),
    };
    let progress = Progress::new("pushing");
    let set_progress = |done, total| progress.set(done, total);
    Ok(annals_push::push(
        inventory,
        &client,
        context.state_dir(),
        options,
        &set_progress,
    )?)
}

fn print_report(url: &str, report: &Report, context: &mut Context) -> Result<()> {
    if context.json {
        context.out.json(&PushJson::new(url, report))?;
        return Ok(());
    }
    let mut parts = vec![match report.segments {
        0 => "the hub has everything".to_owned(),
        _ => format!(
            "{} of {} sent ({} compressed)",
            bytes(report.bytes),
            pluralize(report.files as u64, "file"),
            bytes(report.sent)
        ),
    }];
    if report.masked > 0 {
        parts.push(format!(
            "{} masked",
            pluralize(report.masked as u64, "place")
        ));
    }
    if report.in_databases > 0 {
        parts.push(format!(
            "{} in databases not sent",
            pluralize(report.in_databases as u64, "session")
        ));
    }
    if !report.failed.is_empty() {
        parts.push(format!(
            "{} failed",
            pluralize(report.failed.len() as u64, "file")
        ));
    }
    let text = parts.join(", ");
    context.out.line(format_args!(
        "{} {}",
        paint(SUCCESS, "✓"),
        paint(PLAIN, &text)
    ))?;
    Ok(())
}

fn print_status(url: &str, status: &Status, context: &mut Context) -> Result<()> {
    if context.json {
        context.out.json(&StatusJson {
            hub: url,
            known: status.is_known,
            current: status.current,
            behind: status.behind,
            behind_bytes: status.behind_bytes,
            in_databases: status.in_databases,
        })?;
        return Ok(());
    }
    let text = match status.behind {
        0 => format!(
            "{}: everything is sent ({})",
            url,
            pluralize(status.current as u64, "file")
        ),
        behind => format!(
            "{}: {} of {} not sent, {} up to date",
            url,
            bytes(status.behind_bytes),
            pluralize(behind as u64, "file"),
            count(status.current as u64)
        ),
    };
    context.out.line(format_args!("{}", paint(PLAIN, &text)))?;
    Ok(())
}
