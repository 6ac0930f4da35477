//! Progress bars; hidden where standard error is no terminal.

use indicatif::{ProgressBar, ProgressStyle};

use crate::tally::Tally;

/// A bar over `us` microseconds of load.
pub(crate) fn seconds(us: u64) -> ProgressBar {
    let bar = ProgressBar::new(us / 1_000);
    bar.set_style(style("{bar:30} {percent:>3} % {msg}"));
    bar
}

/// A bar over a number of steps, with the time left.
pub(crate) fn steps(n: usize) -> ProgressBar {
    let bar = ProgressBar::new(n as u64);
    bar.set_style(style("{bar:30} {pos}/{len}, {eta} left: {msg}"));
    bar
}

/// Moves a bar of [`seconds`] to `now_us` and shows what became of the requests so far.
pub(crate) fn show(bar: &ProgressBar, now_us: u64, total: &Tally) {
    let now_ms = now_us / 1_000;
    // Ten times a second is enough for the eye, and keeps the generator's time its own.
    if now_ms < bar.position() + 100 {
        return;
    }
    bar.set_message(counts(total));
    bar.set_position(now_ms);
}

/// What became of the requests so far, in a few words.
pub(crate) fn counts(total: &Tally) -> String {
    format!(
        "answered {}, 429 {}, 503 {}, failed {}, late {}",
        total.ok, total.quota_rejected, total.saturation_rejected, total.failed, total.deadline_missed
    )
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}
