//! Where the mutants of a file stand in its syntax, and how each is switched on.

use std::collections::{BTreeMap, HashSet};
use std::ops::Range;

use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{Arm, BinOp, Block, Expr, ExprBinary, ExprRepeat, ExprStruct, ExprUnary, FieldValue};

use crate::Mutant;
use crate::edit::{Edit, Piece};

#[derive(Default)]
pub struct Found {
    pub edits: Vec<Edit>,
    /// The mutants that are in `edits`.
    pub numbers: HashSet<usize>,
    /// Those that no compiler takes, such as `||` between a `let` and something.
    pub refused: Vec<usize>,
}

pub fn find<'a>(source: &'a str, mutants: &[&'a Mutant]) -> syn::Result<Found> {
    let mut lines = vec![0];
    lines.extend(source.match_indices('\n').map(|(at, _)| at + 1));
    let mut places = BTreeMap::<(&str, usize), Vec<&'a Mutant>>::new();
    for mutant in mutants {
        let line = lines[mutant.span.start.line - 1];
        let mut characters = source[line..].char_indices();
        let column = characters
            .nth(mutant.span.start.column - 1)
            .map_or(0, |(at, _)| at);
        places
            .entry((&mutant.genre, line + column))
            .or_default()
            .push(mutant);
    }
    let mut finder = Finder {
        source,
        places,
        constants: BTreeMap::new(),
        found: Found::default(),
    };
    let file = syn::parse_file(source)?;
    Constants(&mut finder).visit_file(&file);
    finder.visit_file(&file);
    Ok(finder.found)
}

/// Learns which constants are changed, and to what: that can only be chosen where they are used.
struct Constants<'a, 'b>(&'b mut Finder<'a>);

impl<'ast> Visit<'ast> for Constants<'_, '_> {
    fn visit_item_const(&mut self, node: &'ast syn::ItemConst) {
        let mut operators = Operators(Vec::new());
        operators.visit_expr(&node.expr);
        let whole = range(&*node.expr);
        for op in operators.0 {
            for mutant in self.0.at("BinaryOperator", op.start) {
                let (before, after) = (whole.start..op.start, op.end..whole.end);
                let source = self.0.source;
                let text = format!(
                    "{}{}{}",
                    &source[before], mutant.replacement, &source[after]
                );
                let name = node.ident.to_string();
                self.0
                    .constants
                    .entry(name)
                    .or_default()
                    .push((mutant, text));
            }
        }
    }
}

/// Where the operators of an expression stand.
struct Operators(Vec<Range<usize>>);

impl<'ast> Visit<'ast> for Operators {
    fn visit_expr_binary(&mut self, node: &'ast ExprBinary) {
        self.0.push(range(&node.op));
        visit::visit_expr_binary(self, node);
    }
}

struct Finder<'a> {
    source: &'a str,
    places: BTreeMap<(&'a str, usize), Vec<&'a Mutant>>,
    /// What constants become, by name.
    constants: BTreeMap<String, Vec<(&'a Mutant, String)>>,
    found: Found,
}

/// Texts and stretches of the source.
macro_rules! pieces {
    ($($piece:expr),* $(,)?) => { vec![$(Into::<Piece>::into($piece)),*] };
}

impl From<&str> for Piece {
    fn from(text: &str) -> Self {
        Piece::Text(text.to_owned())
    }
}

impl From<String> for Piece {
    fn from(text: String) -> Self {
        Piece::Text(text)
    }
}

impl From<Range<usize>> for Piece {
    fn from(range: Range<usize>) -> Self {
        Piece::Source(range)
    }
}

fn range(node: &impl Spanned) -> Range<usize> {
    node.span().byte_range()
}

fn on(mutant: &Mutant) -> String {
    format!("crate::mutant::on({})", mutant.number)
}

fn marked(mutant: &Mutant, text: &str) -> String {
    format!("/*<{0}*/{text}/*{0}>*/", mutant.number)
}

/// Whether a `let` is part of this chain of conditions.
fn has_let(expr: &Expr) -> bool {
    match expr {
        Expr::Let(_) => true,
        Expr::Binary(ExprBinary {
            left,
            op: BinOp::And(_),
            right,
            ..
        }) => has_let(left) || has_let(right),
        _ => false,
    }
}

impl<'a> Finder<'a> {
    fn at(&mut self, genre: &'static str, start: usize) -> Vec<&'a Mutant> {
        self.places.remove(&(genre, start)).unwrap_or_default()
    }

    fn add(&mut self, range: Range<usize>, mutants: &[&Mutant], pieces: Vec<Piece>) {
        self.found
            .numbers
            .extend(mutants.iter().map(|mutant| mutant.number));
        self.found.edits.push(Edit { range, pieces });
    }

    /// `if on(1) { … } else if on(2) { … } else { … }`
    fn choice(mutants: &[&Mutant], change: impl Fn(&Mutant) -> String, original: &str) -> String {
        let mut text = String::new();
        for mutant in mutants {
            text += &format!(
                "if {} {{ {} }} else ",
                on(mutant),
                marked(mutant, &change(mutant))
            );
        }
        text + &format!("{{ {original} }}")
    }

    fn binary(&mut self, node: &ExprBinary) {
        let op = range(&node.op);
        let mutants = self.at("BinaryOperator", op.start);
        if mutants.is_empty() {
            return;
        }
        let (left, right) = (range(&*node.left), range(&*node.right));
        let whole = left.start..right.end;
        let original = &self.source[op];
        match node.op {
            BinOp::And(_) | BinOp::Or(_) => {
                if has_let(&node.left) || has_let(&node.right) {
                    self.found
                        .refused
                        .extend(mutants.iter().map(|mutant| mutant.number));
                    return;
                }
                // One of them becomes the other, and the right side is evaluated when it would be.
                let [mutant] = mutants.as_slice() else {
                    return;
                };
                let (on, is_or) = (on(mutant), matches!(node.op, BinOp::Or(_)));
                let open = format!("({{ let on__ = {is_or} != {on}; if (");
                let pieces = pieces![open, left, ") != on__ { ", right, " } else { on__ } })"];
                self.add(whole, &mutants, pieces);
            }
            BinOp::Eq(_)
            | BinOp::Ne(_)
            | BinOp::Lt(_)
            | BinOp::Le(_)
            | BinOp::Gt(_)
            | BinOp::Ge(_) => {
                let change = |mutant: &Mutant| format!("*l__ {} *r__", mutant.replacement);
                let choice = Self::choice(&mutants, change, &format!("*l__ {original} *r__"));
                let close = format!(")) {{ (l__, r__) => {choice} }})");
                self.add(
                    whole,
                    &mutants,
                    pieces!["(match (&(", left, "), &(", right, close],
                );
            }
            BinOp::Add(_)
            | BinOp::Sub(_)
            | BinOp::Mul(_)
            | BinOp::Div(_)
            | BinOp::Rem(_)
            | BinOp::BitXor(_)
            | BinOp::BitAnd(_)
            | BinOp::BitOr(_)
            | BinOp::Shl(_)
            | BinOp::Shr(_) => {
                let change = |mutant: &Mutant| format!("l__ {} r__", mutant.replacement);
                let choice = Self::choice(&mutants, change, &format!("l__ {original} r__"));
                let close = format!(")) {{ (l__, r__) => {choice} }})");
                self.add(
                    whole,
                    &mutants,
                    pieces!["(match ((", left, "), (", right, close],
                );
            }
            // Assignments.
            _ => {
                let mut pieces = pieces!["("];
                for mutant in &mutants {
                    pieces.extend(pieces![
                        format!("if {} {{ /*<{}*/", on(mutant), mutant.number),
                        left.clone(),
                        format!(" {} ", mutant.replacement),
                        right.clone(),
                        format!("/*{}>*/ }} else ", mutant.number),
                    ]);
                }
                pieces.extend(pieces!["{ ", left, format!(" {original} "), right, " })"]);
                self.add(whole, &mutants, pieces);
            }
        }
    }

    fn body(&mut self, block: &Block, output: &syn::ReturnType) {
        let Some(first) = block.stmts.first() else {
            return;
        };
        let start = range(first).start;
        if let syn::ReturnType::Type(_, of) = output
            && let syn::Type::ImplTrait(of) = &**of
        {
            self.boxed(block, start, &self.source[range(&of.bounds)]);
            return;
        }
        let mutants = self.at("FnValue", start);
        for mutant in &mutants {
            let change = marked(mutant, &format!("return {};", mutant.replacement));
            let text = format!("if {} {{ {change} }} ", on(mutant));
            self.add(start..start, &[mutant], pieces![text]);
        }
    }

    /// What returns one iterator or another returns a box; no other trait is returned like that.
    fn boxed(&mut self, block: &Block, start: usize, bounds: &str) {
        let Some(syn::Stmt::Expr(last, None)) = block.stmts.last() else {
            return;
        };
        if !bounds.starts_with("Iterator<") {
            return;
        }
        let mutants = self.at("FnValue", start);
        if mutants.is_empty() {
            return;
        }
        let dynamic = format!("Box<dyn {bounds} + '_>");
        for mutant in &mutants {
            let change = format!("return Box::new({}) as {dynamic};", mutant.replacement);
            let text = format!("if {} {{ {} }} ", on(mutant), marked(mutant, &change));
            self.add(start..start, &[mutant], pieces![text]);
        }
        let last = range(last);
        let close = format!(") as {dynamic})");
        self.add(last.clone(), &mutants, pieces!["(Box::new(", last, close]);
    }

    fn field(&mut self, node: &ExprStruct, field: &FieldValue) {
        let (whole, value) = (range(field), range(&field.expr));
        let mutants = self.at("StructField", whole.start);
        let ([mutant], Some(rest)) = (mutants.as_slice(), &node.rest) else {
            return;
        };
        let name = &self.source[range(&field.member)];
        let open = format!("{name}: (if {} {{ /*<{}*/", on(mutant), mutant.number);
        let close = format!("/*{}>*/ }} else {{ ", mutant.number);
        let mut pieces = pieces![open];
        match **rest {
            // What is a place is taken from there, so that the rest of it can still be moved.
            Expr::Path(_) | Expr::Field(_) => {
                pieces.extend(pieces![range(rest), format!(".{name}")])
            }
            _ => {
                let path = &self.source[range(&node.path)];
                pieces.extend(pieces![
                    format!("{{ let rest__: {path} = "),
                    range(rest),
                    format!("; rest__.{name} }}")
                ]);
            }
        }
        pieces.extend(pieces![close, value, " })"]);
        self.add(whole, &mutants, pieces);
    }
}

impl<'ast> Visit<'ast> for Finder<'_> {
    fn visit_item_fn(&mut self, node: &'ast syn::ItemFn) {
        self.body(&node.block, &node.sig.output);
        visit::visit_item_fn(self, node);
    }

    fn visit_impl_item_fn(&mut self, node: &'ast syn::ImplItemFn) {
        self.body(&node.block, &node.sig.output);
        visit::visit_impl_item_fn(self, node);
    }

    fn visit_trait_item_fn(&mut self, node: &'ast syn::TraitItemFn) {
        if let Some(block) = &node.default {
            self.body(block, &node.sig.output);
        }
        visit::visit_trait_item_fn(self, node);
    }

    fn visit_expr_binary(&mut self, node: &'ast ExprBinary) {
        self.binary(node);
        visit::visit_expr_binary(self, node);
    }

    fn visit_expr_path(&mut self, node: &'ast syn::ExprPath) {
        let name = node.path.get_ident().map(ToString::to_string);
        let changes = name.and_then(|name| self.constants.get(&name).cloned());
        if let Some(changes) = changes {
            let mutants: Vec<&Mutant> = changes.iter().map(|(mutant, _)| *mutant).collect();
            let change = |mutant: &Mutant| {
                let found = changes.iter().find(|(one, _)| one.number == mutant.number);
                found.map(|(_, text)| text.clone()).unwrap_or_default()
            };
            let whole = range(node);
            let choice = Self::choice(&mutants, change, &self.source[whole.clone()]);
            self.add(whole, &mutants, pieces![format!("({choice})")]);
        }
    }

    fn visit_expr_unary(&mut self, node: &'ast ExprUnary) {
        let op = range(&node.op);
        let mutants = self.at("UnaryOperator", op.start);
        if !mutants.is_empty() {
            let inner = range(&*node.expr);
            let original = format!("{}v__", &self.source[op.clone()]);
            let choice = Self::choice(&mutants, |_| "v__".to_owned(), &original);
            let close = format!(") {{ v__ => {choice} }})");
            self.add(
                op.start..inner.end,
                &mutants,
                pieces!["(match (", inner, close],
            );
        }
        visit::visit_expr_unary(self, node);
    }

    fn visit_arm(&mut self, node: &'ast Arm) {
        let pattern = range(&node.pat);
        let deleted = self.at("MatchArm", pattern.start);
        let guard = node.guard.as_ref().map(|(_, guard)| range(&**guard));
        match (deleted.as_slice(), &guard) {
            ([mutant], Some(guard)) => {
                let open = format!("!{} && (", on(mutant));
                self.add(guard.clone(), &deleted, pieces![open, guard.clone(), ")"]);
            }
            ([mutant], None) => {
                let text = format!(" if !{} ", on(mutant));
                self.add(pattern.end..pattern.end, &deleted, pieces![text]);
            }
            _ => {}
        }
        if let Some(guard) = guard {
            let mutants = self.at("MatchArmGuard", guard.start);
            for mutant in mutants {
                let open = match mutant.replacement.as_str() {
                    "true" => format!("{} || (", on(mutant)),
                    _ => format!("!{} && (", on(mutant)),
                };
                self.add(guard.clone(), &[mutant], pieces![open, guard.clone(), ")"]);
            }
        }
        visit::visit_arm(self, node);
    }

    fn visit_expr_struct(&mut self, node: &'ast ExprStruct) {
        for field in &node.fields {
            self.field(node, field);
        }
        visit::visit_expr_struct(self, node);
    }

    // Nothing can be chosen at run time in what the compiler evaluates.
    fn visit_item_const(&mut self, _: &'ast syn::ItemConst) {}
    fn visit_item_static(&mut self, _: &'ast syn::ItemStatic) {}
    fn visit_impl_item_const(&mut self, _: &'ast syn::ImplItemConst) {}
    fn visit_type(&mut self, _: &'ast syn::Type) {}
    fn visit_pat(&mut self, _: &'ast syn::Pat) {}
    fn visit_expr_repeat(&mut self, node: &'ast ExprRepeat) {
        self.visit_expr(&node.expr);
    }
}
