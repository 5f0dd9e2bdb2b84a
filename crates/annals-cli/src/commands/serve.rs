//! `annals serve`

use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use annals::service::Service;
use annals::store::Store;
use annals_serve::{Address, Names, Options, serve};
use anyhow::Result;
use clap::Args;
use serde::Serialize;

use super::Outcome;
use super::pricing::Pricer;
use crate::context::Context;
use annals_render::style::{DIM, PATH, paint};

/// Serves the history as a local web page.
#[derive(Debug, Args)]
#[command(after_help = "\
Listens on 127.0.0.1 only. The address that is printed works once: it signs the browser in, and \
leaves its address bar. For another machine, use `ssh -L`. Nothing is written without --write, and \
no page runs a command. See docs/SERVE.md.

Examples:
  annals serve --open
  annals serve --write --port 8080      title, tag, note, pin, todo, fork, trash
  annals serve --mask                   hide secrets on a shared screen")]
pub(crate) struct ServeArgs {
    /// Port [default: a free one]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    port: Option<u16>,
    /// Open the page in a browser
    #[arg(long)]
    open: bool,
    /// Offer forms that write titles, tags, notes, pins and todos, fork, delete and restore
    #[arg(long)]
    write: bool,
    /// Mask secrets
    #[arg(long)]
    mask: bool,
    /// Answer to this name, too, if a tunnel renames the server; can be repeated
    #[arg(long, value_name = "NAME")]
    also_host: Vec<String>,
    /// Use `localhost` in the address, for browsers that do not resolve names below it
    #[arg(long)]
    plain_host: bool,
}

#[derive(Serialize)]
struct AddressJson<'a> {
    page: &'a str,
    api: &'a str,
    token: &'a str,
}

pub(crate) fn run(args: &ServeArgs, context: &mut Context) -> Result<Outcome> {
    let options = Options {
        write: args.write,
        mask: args.mask,
    };
    let names = Names {
        plain: args.plain_host,
        also: args.also_host.clone(),
    };
    let pricer = Pricer::new(context)?;
    let state = context.state_dir().to_owned();
    let store = std::mem::replace(&mut context.store, Store::new(Vec::new()));
    let mut service = Service::new(store.with_state(&state))
        .with_zone(context.clock.zone.clone())
        .with_prices(pricer.prices, pricer.mode)
        .with_shell_dir(std::env::var("PWD").ok());
    if !context.no_index {
        service = service.with_index(&state);
    }
    if context.is_time_fixed {
        service = service.with_now(context.clock.now);
    }
    let mut opened = None;
    let served = serve(service, options, &names, args.port, |address| {
        print_address(address, context)?;
        if args.open {
            opened = Some(open_page(&address.page, &state, context)?);
        }
        Ok(())
    });
    if let Some(file) = opened {
        _ = std::fs::remove_file(file);
    }
    served?;
    Ok(Outcome::Ok)
}

fn print_address(address: &Address, context: &mut Context) -> io::Result<()> {
    context.out.stop_paging()?;
    if context.json {
        context.out.json_line(&AddressJson {
            page: &address.page,
            api: &address.script,
            token: &address.token,
        })?;
    } else {
        let page = paint(PATH, &address.page);
        context.out.line(format_args!("{page}"))?;
        let about = "open it in a browser; it works once. Ctrl-C ends the server";
        context.out.line(format_args!("{}", paint(DIM, about)))?;
        let script = format!(
            "for scripts: curl -H 'Authorization: Bearer {}' {}sessions",
            address.token, address.script
        );
        context.out.line(format_args!("{}", paint(DIM, &script)))?;
    }
    context.out.flush()
}

/// Opens a page in the user's browser. Arguments of programs are public, so the browser gets a file
/// that only the user can read and that leads to the page.
fn open_page(page: &str, state: &Path, context: &Context) -> io::Result<PathBuf> {
    std::fs::create_dir_all(state)?;
    let file = state.join(format!("open-{}.html", std::process::id()));
    _ = std::fs::remove_file(&file);
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o600);
    let mut out = options.open(&file)?;
    writeln!(
        out,
        "<!doctype html><meta charset=\"utf-8\"><meta name=\"referrer\" content=\"no-referrer\">\
         <meta http-equiv=\"refresh\" content=\"0; url={page}\"><title>annals</title>"
    )?;
    let opener = if cfg!(target_os = "macos") {
        "open"
    } else {
        "xdg-open"
    };
    let mut command = Command::new(opener);
    command.arg(&file).stdin(Stdio::null());
    let started = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    if started.is_err() {
        context.print_warning(&format!(
            "{opener} was not found; open the address yourself"
        ));
    }
    Ok(file)
}
