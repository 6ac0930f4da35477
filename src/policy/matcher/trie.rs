//! Path conditions of all rules in one tree of segments.
//!
//! A rule hangs where its path ends: at `here` if it wants exactly this path, at `below` if it also wants what
//! follows. A walk visits each node at most once, since a node's depth is fixed, and ends where no rule goes on: its
//! length depends on the policy, not on the request.

use super::bits::Bits;

/// The tree; node 0 is the root, `/`.
#[derive(Clone, Debug)]
pub(super) struct Trie {
    nodes: Vec<Node>,
}

/// Nodes still to visit, with where their next segment begins; kept between requests.
pub(super) type Stack = Vec<(usize, usize)>;

#[derive(Clone, Debug, Default)]
struct Node {
    /// By literal segment, in order.
    children: Vec<(Box<[u8]>, usize)>,
    /// For any one segment.
    one: Option<usize>,
    here: Vec<usize>,
    below: Vec<usize>,
}

/// A step from a node to the next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Literal(Box<[u8]>),
    One,
}

/// Whether a rule wants what lies below its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reach {
    Here,
    Below,
}

// === impl Trie ===

impl Trie {
    pub(super) fn new() -> Trie {
        Trie { nodes: vec![Node::default()] }
    }

    /// Adds a rule at the end of these steps.
    pub(super) fn insert(&mut self, steps: impl IntoIterator<Item = Step>, reach: Reach, rule: usize) {
        let end = steps.into_iter().fold(0, |node, step| self.child(node, step));
        if let Some(node) = self.nodes.get_mut(end) {
            match reach {
                Reach::Here => node.here.push(rule),
                Reach::Below => node.below.push(rule),
            }
        }
    }

    /// Adds to `found` the rules whose path condition a normal path meets.
    pub(super) fn collect(&self, path: &[u8], stack: &mut Stack, found: &mut Bits) {
        stack.clear();
        stack.push((0, 1));
        while let Some((node, start)) = stack.pop() {
            let Some(node) = self.nodes.get(node) else { continue };
            node.below.iter().for_each(|&rule| found.insert(rule));
            // A normal path has no slash at its end, so no segment begins there.
            let rest = path.get(start..).unwrap_or_default();
            if rest.is_empty() {
                node.here.iter().for_each(|&rule| found.insert(rule));
                continue;
            }
            if node.children.is_empty() && node.one.is_none() {
                continue;
            }
            let len = rest.iter().position(|&byte| byte == b'/').unwrap_or(rest.len());
            let segment = rest.get(..len).unwrap_or_default();
            let next = start.saturating_add(len).saturating_add(1);
            let literal = node.children.binary_search_by(|(text, _)| (**text).cmp(segment));
            if let Some((_, child)) = literal.ok().and_then(|at| node.children.get(at)) {
                stack.push((*child, next));
            }
            if let Some(child) = node.one {
                stack.push((child, next));
            }
        }
    }

    /// Adds to `found` the rules that want everything.
    pub(super) fn collect_all(&self, found: &mut Bits) {
        self.nodes.first().into_iter().flat_map(|root| &root.below).for_each(|&rule| found.insert(rule));
    }

    /// The node that a step leads to, made if it is new.
    fn child(&mut self, from: usize, step: Step) -> usize {
        let new = self.nodes.len();
        let Some(node) = self.nodes.get_mut(from) else { return from };
        let to = match step {
            Step::One => *node.one.get_or_insert(new),
            Step::Literal(text) => match node.children.binary_search_by(|(known, _)| known.cmp(&text)) {
                Ok(at) => node.children.get(at).map_or(new, |(_, child)| *child),
                Err(at) => {
                    node.children.insert(at, (text, new));
                    new
                }
            },
        };
        if to == new {
            self.nodes.push(Node::default());
        }
        to
    }
}
