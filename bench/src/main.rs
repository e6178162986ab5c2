//! `hythe-bench`: how fast a hop is, beside the floor that this machine sets and what people use
//! today.
//!
//! One folder per scenario; `document` is what comes out, `statistics` how figures are made of
//! samples. Each system under test is used as its own users would. Never part of the product: it
//! may use everything, nothing uses it.

mod args;
mod bar;
mod bounce;
mod core;
mod cpus;
mod descendants;
mod document;
mod error;
mod failures;
mod host;
mod ipc;
mod lookout;
mod machine;
mod media;
mod network;
mod others;
mod payload;
mod pool;
mod posix_queue;
mod preload;
mod product;
mod pvm;
mod scale;
mod soak;
mod starter;
mod statistics;
mod system_v;
mod table;
mod times;
mod wait_set;

use std::io::Write;
use std::process::ExitCode;

use clap::Parser;
use serde::Serialize;

use crate::args::{Arguments, Command};
use crate::core::args::CoreArguments;
use crate::document::Document;
use crate::error::BenchError;
use crate::host::args::HostArguments;
use crate::media::args::MediaArguments;
use crate::preload::args::PreloadArguments;
use crate::pvm::args::PvmArguments;
use crate::soak::args::SoakArguments;

fn main() -> ExitCode {
    let done = match Arguments::parse().command {
        Command::Ipc(arguments) => {
            ipc::run(&arguments).and_then(|document| show(document, arguments.scale.json))
        }
        Command::WaitSet(arguments) => {
            wait_set::run(&arguments).and_then(|document| show(document, arguments.json))
        }
        Command::Core(arguments) => run_core(&arguments),
        Command::Preload(arguments) => run_preload(&arguments),
        Command::Media(arguments) => run_media(&arguments),
        Command::MediaEnd(arguments) => media::run_end(&arguments),
        Command::Host(arguments) => run_host(&arguments),
        Command::HostEnd(arguments) => host::run_end(&arguments),
        Command::Pvm(arguments) => run_pvm(&arguments),
        Command::PvmEnd(arguments) => pvm::run_end(&arguments),
        Command::Stencil(arguments) => pvm::stencil::run(&arguments),
        Command::Echo(arguments) => ipc::echo(&arguments),
        Command::IdleNode(arguments) => ipc::footprint::idle(&arguments),
        Command::PairWriter(arguments) => core::pair::write(&arguments),
        Command::ServicePeer(arguments) => core::services::answer(&arguments),
        Command::Soak(arguments) => run_soak(&arguments),
        Command::SoakWorker(arguments) => soak::work(&arguments),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("hythe-bench: {error}");
            ExitCode::from(error.exit_code())
        }
    }
}

/// A run whose figures are not to be trusted still shows them, and then fails.
fn show(document: Document, as_json: bool) -> Result<(), BenchError> {
    print(&document, as_json, table::render)?;
    verdict(document.conditions.invalid)
}

/// A core that is lost and an audit that fails are errors: then there is no document.
fn run_core(arguments: &CoreArguments) -> Result<(), BenchError> {
    let json = arguments.scale.json;
    let (report, render) = match (&arguments.player, arguments.pair, arguments.services) {
        (Some(film), ..) => {
            let report = core::player::run(arguments, film.as_deref())?;
            (report, core::player::render as fn(&_) -> _)
        }
        (_, true, _) => (core::pair::run(arguments)?, times::render as _),
        (_, _, true) => (core::services::run(arguments)?, times::render as _),
        _ => return print(&core::run(arguments)?, json, core::render),
    };
    print(&report, json, render)?;
    verdict(report.conditions.invalid)
}

fn run_preload(arguments: &PreloadArguments) -> Result<(), BenchError> {
    let report = preload::run(arguments)?;
    print(&report, arguments.json, preload::render)?;
    verdict(report.conditions.invalid)
}

fn run_media(arguments: &MediaArguments) -> Result<(), BenchError> {
    let report = media::run(arguments)?;
    print(&report, arguments.json, media::render)?;
    verdict(report.conditions.invalid)
}

fn run_host(arguments: &HostArguments) -> Result<(), BenchError> {
    let report = host::run(arguments)?;
    print(&report, arguments.scale.json, times::render)?;
    verdict(report.conditions.invalid)
}

fn run_pvm(arguments: &PvmArguments) -> Result<(), BenchError> {
    let report = pvm::run(arguments)?;
    print(&report, arguments.scale.json, times::render_with_metrics)?;
    verdict(report.conditions.invalid)
}

/// A soak that found something says what, behind what it counted until then.
fn run_soak(arguments: &SoakArguments) -> Result<(), BenchError> {
    let report = soak::run(arguments)?;
    print(&report, true, |_| String::new())?;
    verdict(report.conditions.invalid)
}

/// For machines, or for people.
fn print<D: Serialize>(
    document: &D,
    as_json: bool,
    render: impl Fn(&D) -> String,
) -> Result<(), BenchError> {
    let shown = if as_json {
        serde_json::to_string_pretty(document).map_err(std::io::Error::from)? + "\n"
    } else {
        render(document)
    };
    Ok(std::io::stdout().write_all(shown.as_bytes())?)
}

fn verdict(invalid: Option<String>) -> Result<(), BenchError> {
    invalid.map_or(Ok(()), |why| Err(BenchError::Invalid(why)))
}
