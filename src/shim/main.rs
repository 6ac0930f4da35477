//! The command line.

use std::io;
use std::process::ExitCode;

use clap::Parser as _;
use clap::error::ErrorKind;
use sluicegate_shim::cli::{Cli, Command, Serve};
use sluicegate_shim::listener::Listeners;
use sluicegate_shim::process::Stop;
use sluicegate_shim::settings::Settings;
use sluicegate_shim::{check, explain, log, process, server};
use tracing::warn;

/// The command line or a file is wrong (`EX_USAGE`).
const EXIT_USAGE: u8 = 64;

/// The server could not do its work (`EX_UNAVAILABLE`).
const EXIT_UNAVAILABLE: u8 = 69;

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Nobody reads it any more if this fails.
            let _ = error.print();
            return match error.kind() {
                ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => ExitCode::SUCCESS,
                _ => ExitCode::from(EXIT_USAGE),
            };
        }
    };
    match cli.command {
        Command::Serve(args) => serve(&args),
        Command::Check { files } => told(check::run(&files, &mut io::stdout(), &mut io::stderr())),
        Command::Explain(args) => told(explain::run(&args, &mut io::stdout(), &mut io::stderr())),
    }
}

/// The exit code of a command that writes; nobody is left to read why writing failed.
fn told(result: io::Result<u8>) -> ExitCode {
    result.map_or(ExitCode::FAILURE, ExitCode::from)
}

fn serve(args: &Serve) -> ExitCode {
    let ready = log::start(args.log_format, &args.log_level).and_then(|()| Settings::new(args));
    let settings = match ready {
        Ok(settings) => settings,
        Err(error) => {
            eprintln!("sluicegate: {error}");
            return ExitCode::from(EXIT_USAGE);
        }
    };
    // The TLS of the Redis client takes the process's provider; it can only be chosen once.
    let _ = rustls::crypto::ring::default_provider().install_default();

    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    if let Some(threads) = args.threads {
        runtime.worker_threads(usize::from(threads));
    }
    let result = runtime.enable_all().build().map_err(anyhow::Error::from).and_then(|runtime| {
        runtime.block_on(async {
            process::raise_descriptors(&settings);
            let listeners = Listeners::bind(&settings).await?;
            let (mut first, mut second) = (Stop::listen()?, Stop::listen()?);
            tokio::select! {
                () = server::run(settings, listeners, async move { first.asked().await }) => {}
                () = async { second.asked().await; second.asked().await } => {
                    warn!("asked to stop a second time: stopped with requests still under way");
                }
            }
            Ok(())
        })
    });
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("sluicegate: {error:#}");
            ExitCode::from(EXIT_UNAVAILABLE)
        }
    }
}
