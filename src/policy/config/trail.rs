//! The way to each value that is looked at, spelt out only for a fault.

use std::cell::RefCell;
use std::fmt::Write;

use super::words::quoted;
use crate::node::Node;

/// A value that was looked at: an index into the trail.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Place(usize);

/// How each value was reached.
pub(super) struct Trail<'r> {
    root: &'r Node,
    /// The place a value was reached from, and which of the entries or items there it is. The top has none.
    steps: RefCell<Vec<(Place, usize)>>,
    /// What the values below some places are about, such as `limit "login"`.
    subjects: RefCell<Vec<(Place, String)>>,
}

// === impl Place ===

impl Place {
    /// The whole document.
    pub(super) const TOP: Place = Place(0);

    /// The top is no step, so the first step is place 1.
    fn step(self) -> Option<usize> {
        self.0.checked_sub(1)
    }
}

// === impl Trail ===

impl<'r> Trail<'r> {
    pub(super) fn new(root: &'r Node) -> Self {
        Trail { root, steps: RefCell::default(), subjects: RefCell::default() }
    }

    /// The `index`-th entry or item at `place`.
    #[inline(never)]
    pub(super) fn enter(&self, place: Place, index: usize) -> Place {
        let mut steps = self.steps.borrow_mut();
        steps.push((place, index));
        Place(steps.len())
    }

    /// Notes what the values at and below a place are about.
    pub(super) fn about(&self, place: Place, subject: String) {
        self.subjects.borrow_mut().push((place, subject));
    }

    /// What a value is about: the nearest note on the way to it.
    pub(super) fn subject(&self, place: Place) -> Option<String> {
        let subjects = self.subjects.borrow();
        self.upwards(place).into_iter().find_map(|place| {
            subjects.iter().find(|(noted, _)| *noted == place).map(|(_, subject)| subject.clone())
        })
    }

    /// The path of a value, such as `limits[1].token_bucket.rate`; empty for the top.
    #[inline(never)]
    pub(super) fn path(&self, place: Place) -> String {
        let steps = self.steps.borrow();
        let mut path = String::new();
        let mut node = Some(self.root);
        for place in self.upwards(place).into_iter().rev() {
            let Some((_, index)) = place.step().and_then(|step| steps.get(step)).copied() else {
                continue;
            };
            // Writing to a String cannot fail.
            node = match node {
                Some(Node::List(items)) => {
                    let _ = write!(path, "[{index}]");
                    items.get(index)
                }
                Some(Node::Map(entries)) => entries.get(index).map(|(name, node)| {
                    let _ = match (is_plain(name), path.is_empty()) {
                        (true, true) => write!(path, "{name}"),
                        (true, false) => write!(path, ".{name}"),
                        (false, _) => write!(path, "[{}]", quoted(name)),
                    };
                    node
                }),
                _ => None,
            };
        }
        path
    }

    /// The place and those it was reached through, the top last.
    fn upwards(&self, place: Place) -> Vec<Place> {
        let steps = self.steps.borrow();
        let parent = |place: &Place| Some(steps.get(place.step()?)?.0);
        std::iter::successors(Some(place), parent).collect()
    }
}

/// A name that needs no quotes in a path.
fn is_plain(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    (1..=64).contains(&name.len()) && name.bytes().all(plain)
}
