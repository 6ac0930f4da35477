//! A wall clock that tests set, for processes that are started with it.
//!
//! A small library is built with `cc`, which Rust needs anyway, and loaded before libc. It shifts what the process is
//! told about the time of day and leaves the monotonic clock alone, as a clock that is set does.

use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

/// A clock that is off by as much as the test says.
#[derive(Debug)]
pub struct Clock {
    folder: TempDir,
    shift: std::fs::File,
}

// === impl Clock ===

impl Clock {
    /// A clock that is right until it is set.
    pub fn new() -> Clock {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("clock.c");
        let built = Command::new("cc")
            .args(["-shared", "-fPIC", "-O1", "-o"])
            .arg(folder.path().join("clock.so"))
            .arg(source)
            .arg("-ldl")
            .status();
        assert!(built.as_ref().is_ok_and(|status| status.success()), "cc: {built:?}");
        let shift = std::fs::File::create(folder.path().join("shift")).expect("a file for the shift");
        let clock = Clock { folder, shift };
        clock.set_ms(0);
        clock
    }

    /// Sets it this far ahead of the machine's, or behind.
    pub fn set_ms(&self, ahead: i64) {
        let ns = ahead * 1_000_000;
        self.shift.write_all_at(&ns.to_ne_bytes(), 0).expect("the file of the shift");
    }

    /// What a process that lives by it is started with.
    pub(crate) fn environment(&self) -> Vec<(String, String)> {
        let path = |name: &str| self.folder.path().join(name).display().to_string();
        vec![("LD_PRELOAD".into(), path("clock.so")), ("CLOCK_SHIFT_FILE".into(), path("shift"))]
    }
}

impl Default for Clock {
    fn default() -> Self {
        Clock::new()
    }
}
