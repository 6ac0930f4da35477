//! A document as a tree, before anybody judges it.
//!
//! [`crate::config`] needs what ordinary deserialization throws away: duplicate keys, and where a value stands.
//! A [`Node`] keeps both, whatever format it came from: JSON ([`from_json`]), a serialized
//! `google.protobuf.Struct` ([`from_struct`], which is how Envoy hands over a Struct configuration), or any other
//! serde format through its [`Deserialize`] (the command line reads YAML that way).

mod json;
mod protobuf;

use std::fmt;

use serde::Deserialize;
use serde::de::{self, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};

pub use self::json::from_json;
pub use self::protobuf::from_struct;

/// Longest document, bytes.
pub const SIZE_MAX: usize = 1_048_576;

/// Deepest nesting of maps and lists; a policy needs nine.
pub const DEPTH_MAX: usize = 32;

/// A value of a document.
#[derive(Clone, Debug, PartialEq)]
pub enum Node {
    /// `null`, or a YAML field without a value.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A whole number, exactly.
    Int(i128),
    /// Any other number.
    Float(f64),
    /// Text.
    Text(Box<str>),
    /// A list.
    List(Vec<Node>),
    /// A map, in the document's order; a key that stands twice is here twice.
    Map(Vec<(Box<str>, Node)>),
}

/// Why there is no tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeError {
    /// The document has no text.
    Empty,
    /// The document has this many bytes, more than [`SIZE_MAX`].
    TooLong(usize),
    /// Lists and maps are nested deeper than [`DEPTH_MAX`].
    TooDeep,
    /// The text breaks off, or is no JSON, at the place named by `path`.
    Json {
        /// Where the reader was, such as `limits[1].token_bucket.burst`; empty at the top.
        path: Box<str>,
        /// What it met, with line and column.
        message: Box<str>,
    },
    /// The bytes are no serialized `google.protobuf.Struct`.
    Protobuf {
        /// Offset of the fault in its message.
        offset: usize,
        /// What is wrong there.
        message: &'static str,
    },
}

/// Reads a [`Node`] and notes where it is, so that an error in the text can name the field it broke.
pub(crate) struct Place<'t, T: Trace> {
    depth: usize,
    trace: &'t T,
}

/// Is told where the reader is.
pub(crate) trait Trace {
    /// The reader goes into a field or an item.
    fn enter(&self, step: Step<'_>);
    /// It came out of it without an error.
    fn leave(&self);
}

/// One step into a document.
pub(crate) enum Step<'s> {
    /// Into the field of a map.
    Field(&'s str),
    /// Into the item of a list.
    Item(usize),
}

/// Nobody asks where the reader is.
struct Untraced;

// === impl Node ===

impl Node {
    /// The whole number this is, if it is one: `3`, and also `3.0`, since a Struct knows only doubles.
    ///
    /// A double counts as whole below 2^53, up to where every whole number has a double of its own.
    pub fn integer(&self) -> Option<i128> {
        const EXACT: f64 = 9_007_199_254_740_992.0;
        match *self {
            Node::Int(number) => Some(number),
            // The cast loses nothing: the value is whole and below 2^53.
            Node::Float(number) if number.trunc() == number && number.abs() < EXACT => Some(number as i128),
            _ => None,
        }
    }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Place { depth: 0, trace: &Untraced }.deserialize(deserializer)
    }
}

// === impl Place ===

impl<'t, T: Trace> Place<'t, T> {
    /// The top of a document.
    pub(crate) fn top(trace: &'t T) -> Self {
        Place { depth: 0, trace }
    }

    fn inside<E: de::Error>(&self) -> Result<Self, E> {
        if self.depth < DEPTH_MAX {
            Ok(Place { depth: self.depth + 1, trace: self.trace })
        } else {
            Err(E::custom(NodeError::TooDeep))
        }
    }
}

impl<'de, T: Trace> DeserializeSeed<'de> for Place<'_, T> {
    type Value = Node;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Node, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de, T: Trace> Visitor<'de> for Place<'_, T> {
    type Value = Node;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Node, E> {
        Ok(Node::Null)
    }

    fn visit_none<E>(self) -> Result<Node, E> {
        Ok(Node::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Node, D::Error> {
        deserializer.deserialize_any(self)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Node, E> {
        Ok(Node::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Node, E> {
        Ok(Node::Int(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Node, E> {
        Ok(Node::Int(value.into()))
    }

    fn visit_i128<E>(self, value: i128) -> Result<Node, E> {
        Ok(Node::Int(value))
    }

    fn visit_u128<E>(self, value: u128) -> Result<Node, E> {
        // Beyond the largest i128 no field can hold it; saturating keeps it out of every range.
        Ok(Node::Int(i128::try_from(value).unwrap_or(i128::MAX)))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Node, E> {
        Ok(Node::Float(value))
    }

    fn visit_str<E>(self, value: &str) -> Result<Node, E> {
        Ok(Node::Text(value.into()))
    }

    fn visit_string<E>(self, value: String) -> Result<Node, E> {
        Ok(Node::Text(value.into()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Node, A::Error> {
        let mut list = Vec::new();
        loop {
            self.trace.enter(Step::Item(list.len()));
            let item = items.next_element_seed(self.inside()?)?;
            self.trace.leave();
            match item {
                Some(item) => list.push(item),
                None => return Ok(Node::List(list)),
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Node, A::Error> {
        let mut map = Vec::new();
        while let Some(key) = entries.next_key::<Box<str>>()? {
            self.trace.enter(Step::Field(&key));
            let value = entries.next_value_seed(self.inside()?)?;
            self.trace.leave();
            map.push((key, value));
        }
        Ok(Node::Map(map))
    }
}

// === impl Untraced ===

impl Trace for Untraced {
    fn enter(&self, _: Step<'_>) {}
    fn leave(&self) {}
}

// === impl NodeError ===

impl fmt::Display for NodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NodeError::Empty => f.write_str("the document is empty"),
            NodeError::TooLong(len) => {
                write!(f, "the document has {len} bytes, more than {SIZE_MAX}")
            }
            NodeError::TooDeep => write!(f, "lists and maps are nested deeper than {DEPTH_MAX}"),
            NodeError::Json { path, message } if path.is_empty() => write!(f, "not JSON: {message}"),
            NodeError::Json { path, message } => write!(f, "{path}: not JSON: {message}"),
            NodeError::Protobuf { offset, message } => {
                write!(f, "not a serialized google.protobuf.Struct: {message} (byte {offset})")
            }
        }
    }
}

impl std::error::Error for NodeError {}
