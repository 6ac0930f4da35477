//! What rules want to know about a request, each thing read once.
//!
//! Headers and properties are numbered when the policy is loaded. A request's values are copied into one buffer that
//! the next request uses again, so after the first few requests nothing is allocated here.

use std::collections::BTreeMap;

use crate::address::Client;
use crate::request::Request;

/// Segments of a property path that are passed on; Envoy's own paths are shorter.
const PROPERTY_DEPTH_MAX: usize = 16;

/// Bytes of the buffer that are kept from one request to the next.
const KEPT_BYTES: usize = 65_536;

/// The number of a header or property.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AttributeId(usize);

/// The number of a way to find the client's address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ClientId(usize);

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Attribute {
    Header(Box<str>),
    Property(Vec<Box<str>>),
}

/// Everything that some rule of the policy asks for.
#[derive(Clone, Debug, Default)]
pub(crate) struct Attributes {
    list: Vec<Attribute>,
    numbers: BTreeMap<Attribute, usize>,
    /// Trusted hops of each [`ClientId`].
    hops: Vec<usize>,
    source_address: Option<AttributeId>,
    forwarded_for: Option<AttributeId>,
}

/// Part of the buffer of a [`Memo`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Span {
    start: usize,
    len: usize,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Slot {
    #[default]
    Unread,
    Absent,
    At(Span),
}

/// What is known about the request at hand.
#[derive(Clone, Debug, Default)]
pub(crate) struct Memo {
    bytes: Vec<u8>,
    spare: Vec<u8>,
    slots: Vec<Slot>,
    clients: Vec<Option<Client>>,
}

/// Reads a request into a memo.
pub(crate) struct Reader<'r> {
    pub(crate) request: &'r dyn Request,
    pub(crate) attributes: &'r Attributes,
    pub(crate) memo: &'r mut Memo,
}

// === impl Attributes ===

impl Attributes {
    /// The number of a header, by lower-case name.
    pub(crate) fn header(&mut self, name: &str) -> AttributeId {
        self.intern(Attribute::Header(name.into()))
    }

    /// The number of a property; beyond 16 segments the path is cut, and names nothing.
    pub(crate) fn property<'a>(&mut self, path: impl IntoIterator<Item = &'a str>) -> AttributeId {
        self.intern(Attribute::Property(path.into_iter().map(Into::into).collect()))
    }

    /// The number of a client address.
    pub(crate) fn client(&mut self, trusted_hops: usize) -> ClientId {
        if self.source_address.is_none() {
            self.source_address = Some(self.property(["source", "address"]));
        }
        if trusted_hops != 0 && self.forwarded_for.is_none() {
            self.forwarded_for = Some(self.header("x-forwarded-for"));
        }
        let known = self.hops.iter().position(|&hops| hops == trusted_hops);
        ClientId(known.unwrap_or_else(|| {
            self.hops.push(trusted_hops);
            self.hops.len().saturating_sub(1)
        }))
    }

    fn intern(&mut self, attribute: Attribute) -> AttributeId {
        if let Some(&number) = self.numbers.get(&attribute) {
            return AttributeId(number);
        }
        let number = self.list.len();
        self.list.push(attribute.clone());
        self.numbers.insert(attribute, number);
        AttributeId(number)
    }
}

// === impl Memo ===

impl Memo {
    /// Forgets everything, for the next request.
    pub(crate) fn clear(&mut self, attributes: &Attributes) {
        self.bytes.clear();
        self.bytes.shrink_to(KEPT_BYTES);
        self.slots.clear();
        self.slots.resize(attributes.list.len(), Slot::Unread);
        self.clients.clear();
        self.clients.resize(attributes.hops.len(), None);
    }

    pub(crate) fn bytes(&self, span: Span) -> &[u8] {
        self.bytes.get(span.start..span.start.saturating_add(span.len)).unwrap_or_default()
    }

    /// Keeps bytes that belong to the request at hand.
    pub(crate) fn keep(&mut self, bytes: &[u8]) -> Span {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        Span { start, len: bytes.len() }
    }

    /// Keeps what `make` writes about something kept before, unless it returns `None`.
    pub(crate) fn keep_from(
        &mut self,
        from: Span,
        make: impl FnOnce(&[u8], &mut Vec<u8>) -> Option<()>,
    ) -> Option<Span> {
        // The buffer moves as it grows, so the new value is made beside it.
        let mut made = std::mem::take(&mut self.spare);
        made.clear();
        let kept = make(self.bytes(from), &mut made).map(|()| self.keep(&made));
        self.spare = made;
        kept
    }

    /// Where `part`, a piece of `whole`'s bytes, lies: `offset` bytes in.
    pub(crate) fn piece(whole: Span, offset: usize, len: usize) -> Span {
        let offset = offset.min(whole.len);
        Span { start: whole.start.saturating_add(offset), len: len.min(whole.len.saturating_sub(offset)) }
    }

    fn slot(&self, AttributeId(number): AttributeId) -> Slot {
        self.slots.get(number).copied().unwrap_or_default()
    }
}

// === impl Span ===

impl Span {
    pub(crate) fn len(self) -> usize {
        self.len
    }
}

// === impl Reader ===

impl Reader<'_> {
    /// A header or property, `None` if the request has none.
    pub(crate) fn get(&mut self, id: AttributeId) -> Option<Span> {
        match self.memo.slot(id) {
            Slot::At(span) => return Some(span),
            Slot::Absent => return None,
            Slot::Unread => {}
        }
        let read = match self.attributes.list.get(id.0)? {
            Attribute::Header(name) => self.request.header(name).map(|value| self.memo.keep(&value)),
            Attribute::Property(path) => {
                let mut parts = [""; PROPERTY_DEPTH_MAX];
                for (part, name) in parts.iter_mut().zip(path) {
                    *part = name;
                }
                let parts = parts.get(..path.len().min(PROPERTY_DEPTH_MAX)).unwrap_or_default();
                self.request.property(parts).map(|value| self.memo.keep(&value))
            }
        };
        if let Some(slot) = self.memo.slots.get_mut(id.0) {
            *slot = read.map_or(Slot::Absent, Slot::At);
        }
        read
    }

    /// The bytes of a header or property.
    pub(crate) fn bytes(&mut self, id: AttributeId) -> Option<&[u8]> {
        let span = self.get(id)?;
        Some(self.memo.bytes(span))
    }

    /// The client's address.
    pub(crate) fn client(&mut self, ClientId(number): ClientId) -> Client {
        if let Some(Some(client)) = self.memo.clients.get(number) {
            return *client;
        }
        let trusted_hops = self.attributes.hops.get(number).copied().unwrap_or(0);
        let source = self.attributes.source_address.and_then(|id| self.get(id));
        let list = match trusted_hops {
            0 => None,
            _ => self.attributes.forwarded_for.and_then(|id| self.get(id)),
        };
        let client = Client::of(
            source.map(|span| self.memo.bytes(span)),
            || list.map(|span| self.memo.bytes(span)),
            trusted_hops,
        );
        if let Some(known) = self.memo.clients.get_mut(number) {
            *known = Some(client);
        }
        client
    }
}
