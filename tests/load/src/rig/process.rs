//! A child process that ends with its handle.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::Context;

/// A running child. Start it in a thread that lives as long: Envoy ends with the thread that started it.
#[derive(Debug)]
pub(crate) struct Process {
    name: String,
    child: Child,
    log: PathBuf,
}

/// Processor time and memory of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Usage {
    /// Processor time of all threads since their start, nanoseconds.
    pub(crate) cpu_ns: u64,
    /// Resident memory, bytes.
    pub(crate) rss_bytes: u64,
}

// === impl Process ===

impl Process {
    /// Starts `command`; what it prints goes to `<folder>/<name>.log`.
    ///
    /// # Errors
    ///
    /// The program cannot be run, or the log cannot be written.
    pub(crate) fn start(name: &str, folder: &Path, mut command: Command) -> anyhow::Result<Process> {
        fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
        let log = folder.join(format!("{name}.log"));
        let output = File::create(&log).with_context(|| log.display().to_string())?;
        command.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output);
        let child = command.spawn().with_context(|| format!("cannot start {name}"))?;
        Ok(Process { name: name.to_owned(), child, log })
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// What it has printed.
    ///
    /// # Errors
    ///
    /// Its log cannot be read.
    pub(crate) fn log(&self) -> std::io::Result<String> {
        fs::read_to_string(&self.log)
    }

    /// The last lines of its log.
    pub(crate) fn log_end(&self) -> String {
        let log = self.log().unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        lines.get(lines.len().saturating_sub(15)..).unwrap_or_default().join("\n")
    }

    /// What it has used so far; zero where `/proc` does not tell.
    pub(crate) fn usage(&self) -> Usage {
        Usage::read(&self.child.id().to_string())
    }
}

// === impl Usage ===

impl Usage {
    /// Of this process itself.
    pub(crate) fn own() -> Usage {
        Usage::read("self")
    }

    fn read(process: &str) -> Usage {
        let folder = PathBuf::from(format!("/proc/{process}"));
        Usage { cpu_ns: cpu_ns(&folder).unwrap_or(0), rss_bytes: rss_bytes(&folder).unwrap_or(0) }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The scheduler's own account of each thread, exact where the ticks of `stat` are 10 ms.
fn cpu_ns(folder: &Path) -> Option<u64> {
    let tasks = fs::read_dir(folder.join("task")).ok()?;
    let of_task = |path: PathBuf| -> Option<u64> {
        fs::read_to_string(path.join("schedstat")).ok()?.split_whitespace().next()?.parse().ok()
    };
    let sum = tasks.filter_map(|task| of_task(task.ok()?.path())).sum();
    if sum > 0 { Some(sum) } else { parse_stat(&fs::read_to_string(folder.join("stat")).ok()?) }
}

/// User and system time of a line of `/proc/<pid>/stat`, whose ticks are 10 ms on every Linux that runs Envoy.
fn parse_stat(stat: &str) -> Option<u64> {
    // The name in parentheses may hold anything.
    let (_, fields) = stat.rsplit_once(')')?;
    let ticks = fields.split_whitespace().skip(11).take(2).map(str::parse::<u64>);
    Some(ticks.sum::<Result<u64, _>>().ok()? * 10_000_000)
}

fn rss_bytes(folder: &Path) -> Option<u64> {
    let status = fs::read_to_string(folder.join("status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    Some(line.split_whitespace().next()?.parse::<u64>().ok()? * 1_024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_is_accounted_for_and_ends_with_its_handle() {
        let folder = tempfolder();
        let mut command = Command::new("sh");
        command.args(["-c", "echo hello; i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; exec sleep 600"]);
        let process = Process::start("child", &folder, command).unwrap();
        let pid = process.child.id();
        while process.usage().cpu_ns == 0 || process.log_end() != "hello" {
            std::thread::yield_now();
        }
        assert!(process.usage().rss_bytes > 0);
        drop(process);
        assert!(!Path::new(&format!("/proc/{pid}/stat")).exists());
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn names_with_spaces_and_parentheses_do_not_confuse() {
        assert_eq!(parse_stat("7 (a) b) S 1 2 3 4 5 6 7 8 9 10 20 30 0 0"), Some(500_000_000));
    }

    fn tempfolder() -> PathBuf {
        std::env::temp_dir().join(format!("sluicegate-load-{}", std::process::id()))
    }
}
