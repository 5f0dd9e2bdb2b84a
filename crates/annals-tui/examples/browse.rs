//! The browser over one root: `cargo run -p annals-tui --example browse LAYOUT:PATH [STATE] [QUERY]`
//!
//! The program `annals browse` also reads settings, prices and all roots of the user. The tests run
//! this.

use std::collections::BTreeMap;
use std::io::Write as _;

use annals::layout::Env;
use annals::service::Service;
use annals::store::{Root, Store};
use annals_tui::{Exit, Mode, Options};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let variable = |name: &str| std::env::var(name).ok();
    let roots = Root::parse(&args.next().ok_or("name a root: LAYOUT:PATH")?)?;
    let mut service = Service::new(Store::new(roots));
    if let Some(state) = args.next() {
        service = service.with_index(state);
    }
    let now = variable("ANNALS_NOW");
    if let Some(now) = &now {
        service = service.with_now(now.parse()?);
    }
    let mode = Mode {
        pick: variable("BROWSE_PICK").is_some(),
        read_only: variable("BROWSE_READ_ONLY").is_some(),
    };
    if let Some(why) = annals_tui::refusal(!mode.pick) {
        return Err(why.into());
    }
    let env = Env {
        home: std::env::home_dir(),
        cwd: std::env::current_dir().ok(),
        vars: std::env::vars().collect(),
    };
    let echo = ["echo", "resumed", "{id}"].map(str::to_owned).to_vec();
    let options = Options {
        mode,
        query: args.collect::<Vec<String>>().join(" "),
        here: false,
        has_colors: variable("NO_COLOR").is_none(),
        env,
        resume: BTreeMap::from([("claude-code".to_owned(), echo)]),
        program: Vec::new(),
        is_time_fixed: now.is_some(),
        panic_key: variable("BROWSE_PANIC_KEY").and_then(|key| key.chars().next()),
    };
    let mut out = std::io::stdout();
    match annals_tui::run(service, options)? {
        Exit::Quit => {}
        Exit::Picked(id) => writeln!(out, "{id}")?,
        Exit::Resume(command) => writeln!(out, "{}", command.shell_line())?,
    }
    Ok(())
}
