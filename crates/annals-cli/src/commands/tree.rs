//! `annals tree`

use std::collections::HashMap;

use annals::cost::{Charge, Tally};
use annals::model::{Money, Outline, OutlineKind};
use annals::store::{Agent, ConversationInfo, FolderHints, Session};
use annals::tree::Segment;
use anyhow::Result;
use clap::Args;
use schemars::JsonSchema;
use serde::Serialize;

use super::fit::{fit_line, fit_title};
use super::pricing::{self, Pricer};
use super::show::agent_name;
use super::{Outcome, choose};
use crate::context::{Context, whole_session};
use annals::view::{ConversationJson, SessionJson, ShortIds, short_id};
use annals_render::severity::flaw_line;
use annals_render::size::{self, pluralize};
use annals_render::style::{DIM, ID, SUCCESS, TITLE, TOOL, USER, paint};
use annals_render::width::{truncate_end, width};

/// Maximum indentation of branches; deeper ones are drawn at this depth.
const MAX_DEPTH: usize = 16;

/// Draws a session.
#[derive(Debug, Args)]
#[command(after_help = "\
● a prompt   ◆ a compaction   ↳ a sub-agent   ➤ where the agent would resume

Examples:
  annals tree 8c549c46
  annals show 8c549c46@1405c20a    read the branch that ends there
  annals fork 8c549c46@5738a76f    continue from there in a new session")]
pub(crate) struct TreeArgs {
    /// SESSION, or the path of a log
    pub(crate) session: Option<String>,
}

#[derive(Serialize, JsonSchema)]
pub(super) struct TreeJson<'a> {
    session: SessionJson<'a>,
    conversations: Vec<ConversationJson<'a>>,
    #[serde(rename = "limbs")]
    segments: Vec<SegmentJson>,
    agents: Vec<AgentJson>,
}

#[derive(Serialize, JsonSchema)]
struct SegmentJson {
    parent: Option<usize>,
    entries: Vec<String>,
    conversation: Option<String>,
}

#[derive(Serialize, JsonSchema)]
struct AgentJson {
    id: Option<String>,
    kind: Option<String>,
    description: Option<String>,
    /// The entry whose tool call spawned it.
    spawned_by: Option<String>,
    messages: usize,
    /// True if clients 2.0 made it at their start to fill the prompt cache.
    warm_up: bool,
    /// True if its log exists only in the archive.
    archived: bool,
    file: String,
    cost_usd: Option<Money>,
    unpriced: u64,
}

pub(crate) fn run(args: &TreeArgs, context: &mut Context) -> Result<Outcome> {
    let name = choose::session(args.session.as_deref(), context)?;
    let inventory = context.inventory();
    let files = whole_session(context.find_in(&inventory, &name)?, &name)?;
    let mut session = Session::read(files)?;
    session.apply_folder_hints(&FolderHints::new(&inventory.sessions));
    let conversations = session.conversations();
    let segments = session
        .tree()
        .map(|tree| tree.segments())
        .unwrap_or_default();
    let pricer = Pricer::new(context)?;
    let price = |charge: &Charge| pricer.price(charge);
    let costs = session.conversation_costs(&price);
    let conversations: Vec<(ConversationInfo, Tally)> =
        conversations.into_iter().zip(costs).collect();
    if context.json {
        print_json(&session, &conversations, &segments, &pricer, context)?;
    } else {
        let drawing = TreeRenderer::new(&session, &conversations, &segments, &pricer, context);
        let text = drawing.render();
        context.out.text(text)?;
    }
    Ok(if conversations.is_empty() {
        Outcome::NotFound
    } else {
        Outcome::Ok
    })
}

fn print_json(
    session: &Session,
    conversations: &[(ConversationInfo, Tally)],
    segments: &[Segment],
    pricer: &Pricer,
    context: &mut Context,
) -> Result<()> {
    let info = session.info(None);
    let price = |charge: &Charge| pricer.price(charge);
    let id = |at: usize| session.entry_id(at).map(|id| id.to_string());
    let document = TreeJson {
        session: SessionJson::new(&info, context.clock.now, &pricer.tally(&info.charges))
            .with_pinned(context.pins_or_none().contains_session(&info)),
        conversations: conversations
            .iter()
            .map(|(info, cost)| ConversationJson::new(info, None, cost))
            .collect(),
        segments: segments
            .iter()
            .map(|segment| SegmentJson {
                parent: segment.parent,
                entries: segment.entries.iter().filter_map(|&at| id(at)).collect(),
                conversation: segment
                    .conversation
                    .and_then(|at| conversations.get(at))
                    .map(|(conversation, _)| conversation.id.clone()),
            })
            .collect(),
        agents: session
            .agents
            .iter()
            .map(|agent| (agent, session.agent_cost(agent, &price)))
            .map(|(agent, cost)| AgentJson {
                cost_usd: cost.known_cost(),
                unpriced: cost.unpriced,
                id: agent.id.as_ref().map(ToString::to_string),
                kind: agent.kind.clone(),
                description: agent.description.clone(),
                spawned_by: agent.call.and_then(|call| {
                    let outline = session.logs.get(call.log)?.outlines.get(call.entry)?;
                    Some(outline.id()?.to_string())
                }),
                messages: agent.messages,
                warm_up: agent.warm_up,
                archived: agent.archived,
                file: session
                    .log(agent.log)
                    .map(|(file, _, _)| file.path.display().to_string())
                    .unwrap_or_default(),
            })
            .collect(),
    };
    context.out.json(&document)?;
    Ok(())
}

struct TreeRenderer<'a> {
    session: &'a Session,
    conversations: &'a [(ConversationInfo, Tally)],
    segments: &'a [Segment],
    pricer: &'a Pricer,
    children: Vec<Vec<usize>>,
    agents: HashMap<(usize, usize), Vec<&'a Agent>>,
    context: &'a Context,
    short: ShortIds,
}

/// A segment to draw.
struct Branch {
    segment: usize,
    /// Text to the left of its lines.
    prefix: String,
    /// Text to the left of its first line instead.
    first_prefix: String,
}

impl<'a> TreeRenderer<'a> {
    fn new(
        session: &'a Session,
        conversations: &'a [(ConversationInfo, Tally)],
        segments: &'a [Segment],
        pricer: &'a Pricer,
        context: &'a Context,
    ) -> Self {
        let mut children = vec![Vec::new(); segments.len()];
        for (at, segment) in segments.iter().enumerate() {
            if let Some(siblings) = segment.parent.and_then(|parent| children.get_mut(parent)) {
                siblings.push(at);
            }
        }
        let mut agents: HashMap<(usize, usize), Vec<&Agent>> = HashMap::new();
        for agent in &session.agents {
            if let Some(call) = agent.call {
                agents
                    .entry((call.log, call.entry))
                    .or_default()
                    .push(agent);
            }
        }
        let outlines = session
            .logs
            .first()
            .map(|scan| scan.outlines.as_slice())
            .unwrap_or_default();
        let ids: Vec<String> = outlines
            .iter()
            .filter_map(|outline| Some(outline.id()?.to_string()))
            .collect();
        let short = ShortIds::for_messages(ids.iter().map(String::as_str));
        TreeRenderer {
            session,
            conversations,
            segments,
            pricer,
            children,
            agents,
            context,
            short,
        }
    }

    fn render(&self) -> String {
        let mut text = self.heading();
        let mut pending: Vec<Branch> = self.roots();
        while let Some(branch) = pending.pop() {
            self.render_segment(&branch, &mut text);
            let children = self
                .children
                .get(branch.segment)
                .map(Vec::as_slice)
                .unwrap_or_default();
            let deep = branch.prefix.chars().count() / 2 >= MAX_DEPTH;
            for (at, &child) in children.iter().enumerate().rev() {
                let last = at + 1 == children.len();
                let (fork, bar) = if last {
                    ("╰─", "  ")
                } else {
                    ("├─", "│ ")
                };
                let bar = if deep { "" } else { bar };
                pending.push(Branch {
                    segment: child,
                    prefix: format!("{}{bar}", branch.prefix),
                    first_prefix: format!("{}{fork}", branch.prefix),
                });
            }
        }
        self.render_unlinked_agents(&mut text);
        self.render_warm_ups(&mut text);
        text
    }

    fn heading(&self) -> String {
        let info = self.session.info(None);
        let title = info
            .title
            .as_ref()
            .map_or("(no title)", |title| title.text.as_str());
        let id = self.session.files.id.as_str();
        let title = fit_title(title, width(id) + 2, self.context);
        let mut facts = vec![
            info.project.path.clone(),
            pluralize(info.messages, "message"),
            pluralize(info.conversations as u64, "conversation"),
        ];
        if info.agents > 0 {
            facts.push(pluralize(info.agents as u64, "sub-agent"));
        }
        facts.extend(pricing::text(&self.pricer.tally(&info.charges)));
        let mut heading = format!(
            "{}  {}\n{}\n",
            paint(ID, id),
            paint(TITLE, &title),
            paint(DIM, &fit_line(&facts.join(" · "), self.context))
        );
        let check = format!(": annals check {}", self.session.files.id);
        if let Some(line) = flaw_line(info.flaw_counts(), &check) {
            heading.push_str(&format!("{line}\n"));
        }
        heading.push('\n');
        heading
    }

    fn roots(&self) -> Vec<Branch> {
        let roots = self
            .segments
            .iter()
            .enumerate()
            .filter(|(_, segment)| segment.parent.is_none());
        let mut roots: Vec<Branch> = roots
            .map(|(segment, _)| Branch {
                segment,
                prefix: String::new(),
                first_prefix: String::new(),
            })
            .collect();
        roots.reverse();
        roots
    }

    /// Renders the prompts of a segment, each with its results.
    fn render_segment(&self, branch: &Branch, text: &mut String) {
        let Some(segment) = self.segments.get(branch.segment) else {
            return;
        };
        let mut first = Some(branch.first_prefix.as_str());
        let mut came = PromptResults::default();
        let outlines = self
            .session
            .logs
            .first()
            .map(|scan| scan.outlines.as_slice())
            .unwrap_or_default();
        for &at in &segment.entries {
            let Some(outline) = outlines.get(at) else {
                continue;
            };
            if outline.human || outline.kind == OutlineKind::Compaction {
                self.render_results(&mut came, branch, &mut first, text);
                let left = first.take().unwrap_or(&branch.prefix);
                self.render_mark(outline, left, text);
            }
            came.add(outline);
            for agent in self.agents.get(&(0, at)).into_iter().flatten() {
                came.agents.push(agent);
            }
        }
        self.render_results(&mut came, branch, &mut first, text);
        let end = segment
            .conversation
            .and_then(|at| self.conversations.get(at));
        if let Some((conversation, cost)) = end {
            self.render_leaf(conversation, cost, &branch.prefix, text);
        }
    }

    fn render_mark(&self, outline: &Outline, left: &str, text: &mut String) {
        let id = outline
            .id()
            .map(|id| self.short.get(id.as_str()).to_owned())
            .unwrap_or_default();
        let time = outline
            .time
            .map(|time| self.context.clock.hour_minute(time))
            .unwrap_or_default();
        let (sign, words) = match outline.kind {
            OutlineKind::Compaction => (paint(TOOL, "◆").to_string(), "compacted".to_owned()),
            _ => (
                paint(USER, "●").to_string(),
                outline
                    .prompt()
                    .unwrap_or_default()
                    .replace(['\n', '\r'], " "),
            ),
        };
        let room = self.context.out.width().map(|width| {
            width
                .saturating_sub(left.chars().count() + id.len() + time.len() + 8)
                .max(20)
        });
        let safe = annals_render::text::safe(&words);
        let words = match room {
            Some(room) => truncate_end(&safe, room),
            None => truncate_end(&safe, 100),
        };
        text.push_str(&format!(
            "{}{sign} {} {words}  {}\n",
            paint(DIM, left),
            paint(ID, &id),
            paint(DIM, &time)
        ));
    }

    /// Renders the results of a prompt: replies, tool calls, sub-agents.
    fn render_results(
        &self,
        came: &mut PromptResults<'_>,
        branch: &Branch,
        first: &mut Option<&str>,
        text: &mut String,
    ) {
        let came = std::mem::take(came);
        let mut facts = Vec::new();
        if came.replies > 0 {
            facts.push(if came.replies == 1 {
                "1 reply".to_owned()
            } else {
                format!("{} replies", size::count(came.replies))
            });
        }
        if came.calls > 0 {
            facts.push(pluralize(came.calls, "tool call"));
        }
        if !facts.is_empty() {
            let left = first.take().unwrap_or(&branch.prefix);
            text.push_str(&format!(
                "{}\n",
                paint(DIM, &format!("{left}│ {}", facts.join(", ")))
            ));
        }
        for agent in came.agents {
            self.render_agent(agent, &format!("{}│ ", branch.prefix), text);
        }
    }

    fn render_agent(&self, agent: &Agent, left: &str, text: &mut String) {
        let mut pending = vec![(agent, left.to_owned())];
        let mut drawn = 0;
        while let Some((agent, left)) = pending.pop() {
            // Only damaged logs have agents that spawned each other in a cycle.
            drawn += 1;
            if drawn > self.session.agents.len() {
                return;
            }
            let what: Vec<&str> = [agent.kind.as_deref(), agent.description.as_deref()]
                .into_iter()
                .flatten()
                .filter(|text| !text.trim().is_empty())
                .collect();
            let what = if what.is_empty() {
                "sub-agent".to_owned()
            } else {
                what.join(": ")
            };
            let price = |charge: &Charge| self.pricer.price(charge);
            let cost = self.session.agent_cost(agent, &price);
            text.push_str(&format!(
                "{}{} {} {}  {}\n",
                paint(DIM, &left),
                paint(TOOL, "↳"),
                paint(ID, &agent_name(self.session, agent)),
                paint(annals_render::style::PLAIN, &what),
                paint(
                    DIM,
                    &format!(
                        "{}{}",
                        totals_text(agent.messages, &cost),
                        archived_suffix(agent)
                    )
                ),
            ));
            if agent.sidechain.is_none() {
                let below = self.agents.iter().filter(|((log, _), _)| *log == agent.log);
                let mut below: Vec<&Agent> = below
                    .flat_map(|(_, agents)| agents.iter().copied())
                    .collect();
                below.sort_by_key(|agent| std::cmp::Reverse(agent.call.map(|call| call.entry)));
                pending.extend(below.into_iter().map(|agent| (agent, format!("{left}  "))));
            }
        }
    }

    fn render_leaf(
        &self,
        conversation: &ConversationInfo,
        cost: &Tally,
        indent: &str,
        text: &mut String,
    ) {
        let id = format!(
            "{}@{}",
            short_id(self.session.files.id.as_str()),
            self.short.get(&conversation.leaf)
        );
        let mark = if conversation.resumes { "➤" } else { "╰" };
        text.push_str(&format!(
            "{}{} {}  {}\n",
            paint(DIM, indent),
            paint(if conversation.resumes { SUCCESS } else { DIM }, mark),
            paint(ID, &id),
            paint(DIM, &totals_text(conversation.messages, cost)),
        ));
    }

    /// Renders the sub-agents that no tool call of this session spawned.
    fn render_unlinked_agents(&self, text: &mut String) {
        let loose: Vec<&Agent> = self
            .session
            .agents
            .iter()
            .filter(|agent| agent.call.is_none() && !agent.warm_up)
            .collect();
        if !loose.is_empty() {
            text.push_str(&format!(
                "\n{}\n",
                paint(DIM, "sub-agents without a tool call in this session")
            ));
        }
        for agent in loose {
            self.render_agent(agent, "  ", text);
        }
    }

    /// Renders the number of warm-ups and their cost.
    fn render_warm_ups(&self, text: &mut String) {
        let agents = self.session.agents.iter();
        let warm_ups: Vec<&Agent> = agents.filter(|agent| agent.warm_up).collect();
        if warm_ups.is_empty() {
            return;
        }
        let price = |charge: &Charge| self.pricer.price(charge);
        let mut cost = Tally::default();
        for agent in &warm_ups {
            cost.merge(&self.session.agent_cost(agent, &price));
        }
        let count = pluralize(warm_ups.len() as u64, "warm-up");
        let facts: Vec<String> = [count].into_iter().chain(pricing::text(&cost)).collect();
        text.push_str(&format!("\n{}\n", paint(DIM, &facts.join(" · "))));
    }
}

/// Suffix of a sub-agent whose log is only in the archive.
fn archived_suffix(agent: &Agent) -> &'static str {
    match agent.archived {
        true => " · archived",
        false => "",
    }
}

/// Formats totals as `12 messages · $0.34`.
fn totals_text(messages: usize, cost: &Tally) -> String {
    let messages = [pluralize(messages as u64, "message")].into_iter();
    let facts: Vec<String> = messages.chain(pricing::text(cost)).collect();
    facts.join(" · ")
}

/// Results of a prompt.
#[derive(Default)]
struct PromptResults<'a> {
    replies: u64,
    calls: u64,
    agents: Vec<&'a Agent>,
    response: Option<annals::model::ResponseKey>,
}

impl PromptResults<'_> {
    fn add(&mut self, outline: &Outline) {
        let Some(reply) = &outline.reply else { return };
        // A reply may take several entries.
        let pair = reply.response.zip(self.response);
        let again = pair.is_some_and(|(one, other)| one.matches(&other));
        self.replies += u64::from(!again);
        self.response = reply.response;
        self.calls += reply.calls.len() as u64;
    }
}
