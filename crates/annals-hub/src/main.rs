//! `annals-hub`

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use annals_hub::access::{Access, Owner};
use annals_hub::delta::Table;
use annals_hub::files::assemble;
use annals_hub::segment_table::SEGMENTS;
use annals_hub::store::{self, Store};
use annals_hub::{Hub, Options, server};
use annals_segments::SourceId;
use anyhow::{Context as _, Result, bail};
use clap::{Args, Parser, Subcommand, ValueEnum};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use uuid::Uuid;

/// Stores the logs of many machines as Delta Lake tables in an object store.
#[derive(Debug, Parser)]
#[command(
    version,
    after_help = "\
Settings of an S3 store come from the environment: AWS_ENDPOINT, AWS_ACCESS_KEY_ID, \
AWS_SECRET_ACCESS_KEY, AWS_REGION, and AWS_ALLOW_HTTP=true without TLS. See docs/HUB.md.

Examples:
  annals-hub serve --store file:///var/lib/annals-hub
  annals-hub machine add laptop-17 --store s3://archive/annals"
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Take segments and commit them, until interrupted
    Serve(ServeArgs),
    /// Commit what is in the inbox, once
    Commit(StoreArgs),
    /// Write the committed files of a machine into a directory, byte for byte as they were sent
    Export(ExportArgs),
    /// Check that the store refuses to create an object twice
    Probe(StoreArgs),
    /// Create, list and revoke the tokens of machines
    #[command(subcommand)]
    Machine(MachineCommand),
    /// Create a token for a reader and print it; it cannot be shown again
    Reader(ReaderArgs),
}

#[derive(Debug, Subcommand)]
enum MachineCommand {
    /// Create a token for a machine and print it; it cannot be shown again
    Add(AddArgs),
    /// List the tokens, also those of readers
    List(StoreArgs),
    /// Revoke tokens
    Revoke(RevokeArgs),
    /// Let another host use the id of a machine that was replaced
    Release(ReleaseArgs),
}

#[derive(Debug, Args)]
struct StoreArgs {
    /// The store: file:///DIR or s3://BUCKET/PREFIX
    #[arg(long, value_name = "URL", env = "ANNALS_HUB_STORE")]
    store: String,
}

#[derive(Debug, Args)]
struct ServeArgs {
    #[command(flatten)]
    store: StoreArgs,
    /// Address to listen on
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8790")]
    listen: SocketAddr,
    /// Write the address to this file once the hub answers
    #[arg(long, value_name = "FILE")]
    address_file: Option<PathBuf>,
    /// Number of lanes of a new store
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=1024))]
    lanes: u32,
    /// Seconds between two commits of a lane
    #[arg(long, value_name = "SECONDS", default_value_t = 10)]
    commit_every: u64,
    /// Directory for the files of machines, from which questions are answered; it is emptied
    #[arg(long, value_name = "DIR")]
    cache: Option<PathBuf>,
}

#[derive(Debug, Args)]
struct AddArgs {
    #[command(flatten)]
    store: StoreArgs,
    /// Name of the machine
    name: String,
    /// Id of a machine that gets another token
    #[arg(long, value_name = "ID")]
    source: Option<SourceId>,
}

#[derive(Debug, Args)]
struct ReaderArgs {
    #[command(flatten)]
    store: StoreArgs,
    /// Name of the person
    name: String,
    /// What they may read
    #[arg(long, value_name = "ROLE", default_value = "person")]
    role: Role,
    /// Id of one of their machines; can be repeated
    #[arg(long, value_name = "ID")]
    machine: Vec<SourceId>,
    /// Id of a machine of their team; can be repeated
    #[arg(long, value_name = "ID")]
    team: Vec<SourceId>,
    /// Let a lead read the sessions of the team, not only costs
    #[arg(long)]
    content: bool,
}

/// What a reader may read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Role {
    /// Sessions and costs of their own machines
    Person,
    /// Also costs of the team
    Lead,
    /// Everything
    Auditor,
}

#[derive(Debug, Args)]
struct RevokeArgs {
    #[command(flatten)]
    store: StoreArgs,
    /// Beginning of the token's id, as `list` prints it
    id: String,
}

#[derive(Debug, Args)]
struct ExportArgs {
    #[command(flatten)]
    store: StoreArgs,
    /// Id of the machine
    source: SourceId,
    /// Directory that gets the files, under their paths on the machine; none may exist
    #[arg(long, value_name = "DIR")]
    into: PathBuf,
}

#[derive(Debug, Args)]
struct ReleaseArgs {
    #[command(flatten)]
    store: StoreArgs,
    /// Id of the machine
    source: SourceId,
}

impl StoreArgs {
    fn open(&self) -> Result<Store> {
        let variables = std::env::vars().filter(|(name, _)| name.starts_with("AWS_"));
        let options = variables.map(|(name, value)| (name.to_ascii_lowercase(), value));
        Ok(store::open(&self.store, options)?)
    }
}

#[tokio::main]
async fn main() -> Result<()> {
    match Cli::parse().command {
        Command::Serve(args) => serve(&args).await,
        Command::Commit(args) => {
            let hub = Hub::open(args.open()?, Options::default()).await?;
            let pass = hub.commit_all().await?;
            print_line(&format!(
                "{} segments committed, {} waiting",
                pass.added, pass.waiting
            ))
        }
        Command::Export(args) => export(&args).await,
        Command::Probe(args) => {
            store::probe(&args.open()?).await?;
            print_line("the store can be used")
        }
        Command::Machine(command) => machine(command).await,
        Command::Reader(args) => reader(args).await,
    }
}

async fn serve(args: &ServeArgs) -> Result<()> {
    let options = Options {
        lanes: args.lanes,
        commit_every: Duration::from_secs(args.commit_every),
        cache: args.cache.clone(),
        now: None,
    };
    let hub = Arc::new(Hub::open(args.store.open()?, options).await?);
    let listener = TcpListener::bind(args.listen).await;
    let listener = listener.with_context(|| format!("cannot listen on {}", args.listen))?;
    let address = listener.local_addr()?;
    if let Some(file) = &args.address_file {
        let written = std::fs::write(file, format!("{address}\n"));
        written.with_context(|| format!("cannot write {}", file.display()))?;
    }
    print_line(&format!("listening on http://{address}"))?;
    let committing = Arc::clone(&hub);
    let report = |error: &annals_hub::Error| report(&format!("commit: {error}"));
    let committer = tokio::spawn(async move { committing.commit_forever(report).await });
    let (mut interrupt, mut terminate) = (
        signal(SignalKind::interrupt())?,
        signal(SignalKind::terminate())?,
    );
    tokio::select! {
        served = server::serve(listener, hub) => served?,
        ended = committer => ended?,
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
    Ok(())
}

async fn export(args: &ExportArgs) -> Result<()> {
    let store = args.store.open()?;
    let table = Table::open(&store, SEGMENTS).await?;
    let files = assemble(&store, &table, |source| source == args.source).await?;
    for file in &files {
        let written = file.write_below(&args.into);
        written.with_context(|| format!("cannot write {}/{}", file.root, file.path))?;
    }
    print_line(&format!("{} files written", files.len()))
}

async fn machine(command: MachineCommand) -> Result<()> {
    match command {
        MachineCommand::Add(args) => {
            let store = args.store.open()?;
            store::probe(&store).await?;
            check_name(&args.name)?;
            let source = args
                .source
                .unwrap_or_else(|| SourceId::from_bytes(*Uuid::new_v4().as_bytes()));
            let owner = Owner::Machine {
                source,
                name: args.name,
            };
            let made = Access::new(&store).create(&owner).await?;
            report(&format!("machine {source}, token id {}", made.id));
            print_line(&made.token)
        }
        MachineCommand::List(args) => {
            for (id, owner) in Access::new(&args.open()?).list().await? {
                let about = match &owner {
                    Owner::Machine { source, .. } => source.to_string(),
                    Owner::Person { .. } => "person".into(),
                    Owner::Lead { .. } => "lead".into(),
                    _ => "auditor".into(),
                };
                print_line(&format!("{id}  {about:<32}  {}", owner.name()))?;
            }
            Ok(())
        }
        MachineCommand::Revoke(args) => {
            let revoked = Access::new(&args.store.open()?).revoke(&args.id).await?;
            if revoked == 0 {
                bail!("no token has an id that begins with {}", args.id);
            }
            print_line(&format!(
                "{revoked} revoked; hubs refuse it within 5 seconds"
            ))
        }
        MachineCommand::Release(args) => {
            let hub = Hub::open(args.store.open()?, Options::default()).await?;
            hub.release(args.source).await?;
            print_line("the next machine with its token takes the id")
        }
    }
}

async fn reader(args: ReaderArgs) -> Result<()> {
    check_name(&args.name)?;
    if args.role != Role::Lead && (args.content || !args.team.is_empty()) {
        bail!("only a lead has a team");
    }
    let (name, machines) = (args.name, args.machine.into_iter().collect());
    let owner = match args.role {
        Role::Person => Owner::Person { name, machines },
        Role::Auditor => Owner::Auditor { name, machines },
        Role::Lead => Owner::Lead {
            name,
            machines,
            team: args.team.into_iter().collect(),
            content: args.content,
        },
    };
    let store = args.store.open()?;
    store::probe(&store).await?;
    let made = Access::new(&store).create(&owner).await?;
    report(&format!("token id {}", made.id));
    print_line(&made.token)
}

fn check_name(name: &str) -> Result<()> {
    match name.is_empty() || name.len() > 200 || name.chars().any(char::is_control) {
        true => bail!("a name has 1 to 200 bytes and no control characters"),
        false => Ok(()),
    }
}

fn print_line(text: &str) -> Result<()> {
    use std::io::Write as _;
    Ok(writeln!(std::io::stdout(), "{text}")?)
}

fn report(text: &str) {
    use std::io::Write as _;
    // Nobody may be reading.
    _ = writeln!(std::io::stderr(), "annals-hub: {text}");
}
