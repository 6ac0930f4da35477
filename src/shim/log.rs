//! Structured logs on standard output: one line for each change of state, none for a request.

use tracing_subscriber::EnvFilter;

use crate::cli::LogFormat;

/// Starts logging.
///
/// # Errors
/// The level is no filter.
pub fn start(format: LogFormat, level: &str) -> Result<(), String> {
    let filter = EnvFilter::builder().parse(level).map_err(|error| format!("--log-level: {error}"))?;
    let logs = tracing_subscriber::fmt().with_env_filter(filter).with_target(false);
    match format {
        LogFormat::Text => logs.with_ansi(false).init(),
        LogFormat::Json => {
            logs.json().flatten_event(true).with_current_span(false).with_span_list(false).init()
        }
    }
    Ok(())
}
