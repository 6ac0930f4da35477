//! JSON text to a [`Node`].

use std::cell::RefCell;
use std::fmt::Write;

use serde::de::DeserializeSeed;

use super::{Node, NodeError, Place, SIZE_MAX, Step, Trace};

/// Reads one JSON value and nothing after it.
///
/// # Errors
///
/// Empty or overlong text, text that is no JSON (or goes on after it), numbers that no double can hold, and
/// nesting deeper than [`super::DEPTH_MAX`]. Text errors name the field they are in.
pub fn from_json(text: &[u8]) -> Result<Node, NodeError> {
    if text.trim_ascii().is_empty() {
        return Err(NodeError::Empty);
    }
    if SIZE_MAX < text.len() {
        return Err(NodeError::TooLong(text.len()));
    }
    let path = Path::default();
    let mut reader = serde_json::Deserializer::from_slice(text);
    Place::top(&path)
        .deserialize(&mut reader)
        .and_then(|node| reader.end().map(|()| node))
        .map_err(|error| path.blame(&error))
}

/// The way from the top of the document to where the reader is.
#[derive(Default)]
struct Path {
    text: RefCell<String>,
    lengths: RefCell<Vec<usize>>,
}

// === impl Path ===

impl Path {
    fn blame(&self, error: &serde_json::Error) -> NodeError {
        let message = error.to_string();
        if message.starts_with(&NodeError::TooDeep.to_string()) {
            return NodeError::TooDeep;
        }
        NodeError::Json { path: self.text.borrow().as_str().into(), message: message.into() }
    }
}

impl Trace for Path {
    fn enter(&self, step: Step<'_>) {
        let mut text = self.text.borrow_mut();
        self.lengths.borrow_mut().push(text.len());
        // Writing to a String cannot fail.
        let _ = match step {
            Step::Field(name) if text.is_empty() => write!(text, "{name}"),
            Step::Field(name) => write!(text, ".{name}"),
            Step::Item(index) => write!(text, "[{index}]"),
        };
    }

    fn leave(&self) {
        if let Some(length) = self.lengths.borrow_mut().pop() {
            self.text.borrow_mut().truncate(length);
        }
    }
}
