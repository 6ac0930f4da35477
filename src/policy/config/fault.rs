//! What is wrong with a document: everything, not the first thing.

use std::cell::{Cell, RefCell};
use std::fmt;

use super::trail::{Place, Trail};
use crate::node::Node;

/// Most faults that are listed; the rest are counted.
const LISTED_MAX: usize = 100;

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Where, such as `limits[1].token_bucket.rate`; empty for the whole document.
    pub path: Box<str>,
    /// What was expected and what was found, and the name of the limit it is about.
    pub message: Box<str>,
}

/// Everything that is wrong with a document; never empty. Shown one fault a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Faults {
    listed: Vec<Fault>,
    unlisted: usize,
}

/// Gathers faults while a document is read.
pub(super) struct Log<'r> {
    pub(super) trail: Trail<'r>,
    listed: RefCell<Vec<Fault>>,
    unlisted: Cell<usize>,
}

// === impl Faults ===

impl Faults {
    /// The faults, in the order in which they were found; at most 100.
    pub fn iter(&self) -> impl Iterator<Item = &Fault> {
        self.listed.iter()
    }

    /// How many more there are than [`Faults::iter`] shows.
    pub fn unlisted(&self) -> usize {
        self.unlisted
    }

    pub(super) fn one(path: &str, message: String) -> Self {
        Faults { listed: vec![Fault { path: path.into(), message: message.into() }], unlisted: 0 }
    }
}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, fault) in self.listed.iter().enumerate() {
            if 0 < index {
                f.write_str("\n")?;
            }
            write!(f, "{fault}")?;
        }
        match self.unlisted {
            0 => Ok(()),
            more => write!(f, "\nand {more} more"),
        }
    }
}

impl std::error::Error for Faults {}

// === impl Fault ===

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.path {
            "" => f.write_str(&self.message),
            path => write!(f, "{path}: {}", self.message),
        }
    }
}

// === impl Log ===

impl<'r> Log<'r> {
    pub(super) fn new(root: &'r Node) -> Self {
        Log { trail: Trail::new(root), listed: RefCell::default(), unlisted: Cell::new(0) }
    }

    #[inline(never)]
    pub(super) fn add(&self, place: Place, message: String) {
        let mut listed = self.listed.borrow_mut();
        if listed.len() < LISTED_MAX {
            let message = match self.trail.subject(place) {
                Some(subject) => format!("{message} ({subject})"),
                None => message,
            };
            listed.push(Fault { path: self.trail.path(place).into(), message: message.into() });
        } else {
            self.unlisted.set(self.unlisted.get() + 1);
        }
    }

    /// `value`, if nothing was found wrong.
    pub(super) fn judge<T>(self, value: Option<T>) -> Result<T, Faults> {
        let listed = self.listed.into_inner();
        match value {
            Some(value) if listed.is_empty() => Ok(value),
            // A reader that gives nothing has said why; should one forget to, the document is refused all the same.
            None if listed.is_empty() => Err(Faults::one("", "the document is not valid".into())),
            _ => Err(Faults { listed, unlisted: self.unlisted.get() }),
        }
    }
}
