//! A serialized `google.protobuf.Struct` to a [`Node`].
//!
//! Envoy passes a Struct configuration on as it stands on the wire. The format is small: a tag (field number and
//! wire type) as a varint, then a varint, eight bytes, four bytes, or a length and that many bytes.
//! <https://protobuf.dev/programming-guides/encoding/>; the messages are those of `google/protobuf/struct.proto`:
//!
//! ```text
//! Struct    { map<string, Value> fields = 1; }      an entry is a message { string key = 1; Value value = 2; }
//! Value     { oneof: NullValue null = 1; double number = 2; string string = 3; bool bool = 4;
//!             Struct struct = 5; ListValue list = 6; }
//! ListValue { repeated Value values = 1; }
//! ```

use super::{DEPTH_MAX, Node, NodeError, SIZE_MAX};

/// Reads a serialized `google.protobuf.Struct`. Its numbers are doubles; whole ones below 2^53 become integers.
///
/// # Errors
///
/// No or too many bytes, truncated or malformed messages, text that is not UTF-8, and nesting deeper than
/// [`DEPTH_MAX`].
pub fn from_struct(bytes: &[u8]) -> Result<Node, NodeError> {
    if bytes.is_empty() {
        return Err(NodeError::Empty);
    }
    if SIZE_MAX < bytes.len() {
        return Err(NodeError::TooLong(bytes.len()));
    }
    structure(Message { bytes, base: 0 }, 0)
}

/// A message, or what is left of it.
#[derive(Clone, Copy)]
struct Message<'b> {
    bytes: &'b [u8],
    /// Offset of `bytes` in the document, for error messages.
    base: usize,
}

/// A field of a message.
enum Field<'b> {
    Varint(u64),
    Fixed64(u64),
    Fixed32,
    Bytes(Message<'b>),
}

fn structure(mut message: Message<'_>, depth: usize) -> Result<Node, NodeError> {
    let mut map = Vec::new();
    while let Some((number, field)) = message.next()? {
        if let (1, Field::Bytes(entry)) = (number, field) {
            map.push(map_entry(entry, depth)?);
        }
    }
    Ok(Node::Map(map))
}

fn map_entry(mut message: Message<'_>, depth: usize) -> Result<(Box<str>, Node), NodeError> {
    let mut key = "";
    let mut node = Node::Null;
    while let Some((number, field)) = message.next()? {
        match (number, field) {
            (1, Field::Bytes(text)) => key = text.text()?,
            (2, Field::Bytes(inner)) => node = value(inner, depth + 1)?,
            _ => {}
        }
    }
    Ok((key.into(), node))
}

fn list(mut message: Message<'_>, depth: usize) -> Result<Node, NodeError> {
    let mut items = Vec::new();
    while let Some((number, field)) = message.next()? {
        if let (1, Field::Bytes(inner)) = (number, field) {
            items.push(value(inner, depth + 1)?);
        }
    }
    Ok(Node::List(items))
}

fn value(mut message: Message<'_>, depth: usize) -> Result<Node, NodeError> {
    if DEPTH_MAX < depth {
        return Err(NodeError::TooDeep);
    }
    let mut node = Node::Null;
    while let Some((number, field)) = message.next()? {
        node = match (number, field) {
            (1, Field::Varint(_)) => Node::Null,
            (2, Field::Fixed64(bits)) => {
                let number = Node::Float(f64::from_bits(bits));
                number.integer().map_or(number, Node::Int)
            }
            (3, Field::Bytes(text)) => Node::Text(text.text()?.into()),
            (4, Field::Varint(bit)) => Node::Bool(bit != 0),
            (5, Field::Bytes(inner)) => structure(inner, depth)?,
            (6, Field::Bytes(inner)) => list(inner, depth)?,
            // Fields of a later version of the format are skipped, as protobuf asks.
            _ => node,
        };
    }
    Ok(node)
}

// === impl Message ===

impl<'b> Message<'b> {
    /// The next field, or `None` at the end of the message.
    fn next(&mut self) -> Result<Option<(u64, Field<'b>)>, NodeError> {
        if self.bytes.is_empty() {
            return Ok(None);
        }
        let tag = self.varint()?;
        let field = match tag & 7 {
            0 => Field::Varint(self.varint()?),
            1 => Field::Fixed64(u64::from_le_bytes(self.array()?)),
            2 => {
                let length = self.varint()?;
                let length = usize::try_from(length).map_err(|_| self.error("a length runs past the end"))?;
                Field::Bytes(self.take(length)?)
            }
            5 => {
                self.array::<4>()?;
                Field::Fixed32
            }
            _ => return Err(self.error("an unknown wire type")),
        };
        match tag >> 3 {
            0 => Err(self.error("a field number of zero")),
            number => Ok(Some((number, field))),
        }
    }

    fn varint(&mut self) -> Result<u64, NodeError> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let [byte] = self.array()?;
            let bits = u64::from(byte & 0x7f);
            // The tenth byte has room for one bit.
            if shift == 63 && 1 < bits {
                break;
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(self.error("a number of more than 64 bits"))
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], NodeError> {
        let (head, tail) = self.bytes.split_first_chunk().ok_or_else(|| self.error("it breaks off"))?;
        self.bytes = tail;
        self.base += N;
        Ok(*head)
    }

    fn take(&mut self, length: usize) -> Result<Message<'b>, NodeError> {
        let (head, tail) =
            self.bytes.split_at_checked(length).ok_or_else(|| self.error("a length runs past the end"))?;
        let part = Message { bytes: head, base: self.base };
        self.bytes = tail;
        self.base += length;
        Ok(part)
    }

    fn text(self) -> Result<&'b str, NodeError> {
        std::str::from_utf8(self.bytes).map_err(|_| self.error("text that is not UTF-8"))
    }

    fn error(&self, message: &'static str) -> NodeError {
        NodeError::Protobuf { offset: self.base, message }
    }
}
