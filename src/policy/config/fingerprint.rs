//! One number for a document, the same on every Envoy that has it.

use sha2::{Digest, Sha256};

use crate::node::Node;
use crate::order::sort;

/// The first four bytes of SHA-256 over the document, whatever its format and the order of its fields.
pub(super) fn of(node: &Node) -> u32 {
    let mut hash = Sha256::new();
    feed(&mut hash, node);
    match hash.finalize().first_chunk() {
        Some(head) => u32::from_be_bytes(*head),
        None => 0,
    }
}

/// Each value as a letter and, where its length varies, a length, so that no two documents read the same.
fn feed(hash: &mut Sha256, node: &Node) {
    match node {
        Node::Null => hash.update(b"n"),
        Node::Bool(value) => hash.update([b'b', u8::from(*value)]),
        Node::Int(_) | Node::Float(_) => number(hash, node),
        Node::Text(text) => sized(hash, b't', text),
        Node::List(items) => {
            hash.update(b"l");
            hash.update((items.len() as u64).to_be_bytes());
            items.iter().for_each(|item| feed(hash, item));
        }
        Node::Map(fields) => {
            let mut fields: Vec<&(Box<str>, Node)> = fields.iter().collect();
            sort(&mut fields, |left, right| left.0.cmp(&right.0));
            hash.update(b"m");
            hash.update((fields.len() as u64).to_be_bytes());
            for (name, value) in fields {
                sized(hash, b'k', name);
                feed(hash, value);
            }
        }
    }
}

/// A whole number is the same whether it was written as a double or not.
fn number(hash: &mut Sha256, node: &Node) {
    match (node.integer(), node) {
        (Some(number), _) => {
            hash.update(b"i");
            hash.update(number.to_be_bytes());
        }
        (None, Node::Float(number)) => {
            hash.update(b"f");
            hash.update(number.to_bits().to_be_bytes());
        }
        _ => {}
    }
}

fn sized(hash: &mut Sha256, letter: u8, text: &str) {
    hash.update([letter]);
    hash.update((text.len() as u64).to_be_bytes());
    hash.update(text.as_bytes());
}
