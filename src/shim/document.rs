//! Policy files: YAML or JSON, into the tree that the filter's own code judges.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use serde_saphyr::budget::BudgetBreach;
use serde_saphyr::{DuplicateKeyPolicy, MergeKeyPolicy, NonFiniteFloatPolicy};
use sluicegate_policy::config::{self, Faults};
use sluicegate_policy::node::{DEPTH_MAX, Node, SIZE_MAX};
use sluicegate_policy::policy::Policy;

/// Most scalars, lists and maps of a YAML document, aliases followed: what a megabyte of policy has, and far less than
/// aliases of aliases can make of a hundred bytes.
const EVENTS_MAX: usize = 200_000;

/// Why a file gives no policy.
#[derive(Debug)]
pub enum DocumentError {
    /// It cannot be read.
    Read(io::Error),
    /// It is no YAML; the text says why and where.
    Yaml(String),
    /// It is a document, but no policy.
    Faults(Faults),
}

/// The policy in a file; `-` is standard input.
///
/// A name that ends in `.json` is read as JSON, by the filter's own reader; anything else as YAML, of which JSON is
/// a part.
///
/// # Errors
///
/// See [`DocumentError`]; of a document, every fault is told.
pub fn policy(path: &Path) -> Result<Policy, DocumentError> {
    let text = text(path).map_err(DocumentError::Read)?;
    if path.extension().is_some_and(|extension| extension == "json") {
        return config::from_json(&text).map_err(DocumentError::Faults);
    }
    config::from_node(&yaml(&text)?).map_err(DocumentError::Faults)
}

/// Reads one YAML document.
///
/// # Errors
///
/// [`DocumentError::Yaml`] with line and column: text that is no YAML, more than one document, or more than the
/// bounds of [`sluicegate_policy::node`] allow.
pub fn yaml(text: &[u8]) -> Result<Node, DocumentError> {
    let fault = |message: String| DocumentError::Yaml(message);
    if SIZE_MAX < text.len() {
        return Err(fault(format!("the document has more than {SIZE_MAX} bytes")));
    }
    if text.trim_ascii().is_empty() {
        return Err(fault("the document is empty".into()));
    }
    let mut options = serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_depth: DEPTH_MAX,
            max_events: EVENTS_MAX,
            max_nodes: EVENTS_MAX,
            max_documents: 1,
        },
        // Repeated keys reach the policy's own check, which names their path.
        duplicate_keys: DuplicateKeyPolicy::PassThrough,
        merge_keys: MergeKeyPolicy::Merge,
        non_finite_float_policy: NonFiniteFloatPolicy::PassThrough,
        // `yes` and `on` are text, as in JSON.
        strict_booleans: true,
        // What readers of YAML take for different numbers is text, and so a fault where a number is due.
        leading_zero_numbers_as_strings: true,
        underscored_numbers_as_strings: true,
        reject_unsupported_tags: true,
        // A one-line message: this is a line of a log, not a page.
        with_snippet: false,
    };
    options.alias_limits.max_total_replayed_events = EVENTS_MAX;
    serde_saphyr::from_slice_with_options(text, options).map_err(|error| fault(explain(&error)))
}

/// The error in words; the bounds have clearer ones than their own.
fn explain(error: &serde_saphyr::Error) -> String {
    let mut error = error;
    // An error in what an alias stands for is that error.
    while let serde_saphyr::Error::AliasError { error: inner, .. } = error {
        error = inner;
    }
    match error {
        serde_saphyr::Error::Budget { breach: BudgetBreach::Documents { .. }, .. } => {
            "more than one document in the file".into()
        }
        serde_saphyr::Error::Budget { breach: BudgetBreach::Depth { .. }, .. } => {
            format!("lists and maps are nested deeper than {DEPTH_MAX}")
        }
        serde_saphyr::Error::Budget { .. } => {
            format!("the document has more than {EVENTS_MAX} values, aliases followed")
        }
        error => error.to_string(),
    }
}

/// The text of a file, of which no more is read than a document may have.
fn text(path: &Path) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    let bound = SIZE_MAX as u64 + 1;
    match path == Path::new("-") {
        true => io::stdin().lock().take(bound).read_to_end(&mut text)?,
        false => File::open(path)?.take(bound).read_to_end(&mut text)?,
    };
    Ok(text)
}

// === impl DocumentError ===

impl fmt::Display for DocumentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DocumentError::Read(error) => write!(f, "{error}"),
            DocumentError::Yaml(message) => write!(f, "not YAML: {message}"),
            DocumentError::Faults(faults) => write!(f, "{faults}"),
        }
    }
}

impl std::error::Error for DocumentError {}
