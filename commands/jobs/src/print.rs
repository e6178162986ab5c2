//! What tasks print, as they print it, with labels, or as a document.

use std::io;
use std::sync::{Mutex, PoisonError};

use hythe_cluster::tasks::{Output, Stream, TaskEnd};
use hythe_command::args::Globals;
use hythe_command::error::CliError;
use hythe_command::output::{self, Growing};
use serde::Serialize;

use super::RunArgs;

pub(super) struct Printer {
    is_labelled: bool,
    /// With `--json`.
    document: Option<Mutex<Option<Growing>>>,
}

#[derive(Serialize)]
struct Head<'a> {
    job: u32,
    program: &'a str,
    count: u32,
}

#[derive(Serialize)]
struct Line<'a> {
    rank: u32,
    stream: &'a str,
    text: &'a str,
}

#[derive(Serialize)]
struct Tail<'a> {
    tasks: &'a [TaskEnd],
    exit_code: u8,
}

impl Printer {
    pub(super) fn begin(args: &RunArgs, globals: &Globals, job: u32) -> Result<Self, CliError> {
        let (program, _) = args.program();
        let head = Head {
            job,
            program: &program.to_string_lossy(),
            count: args.tasks()?,
        };
        let document = match globals.json {
            true => Some(Mutex::new(Some(Growing::begin(&head, "output")?))),
            false => None,
        };
        Ok(Self {
            is_labelled: args.label,
            document,
        })
    }

    /// Bytes go out as they came: a program that runs for its user may draw on the terminal.
    pub(super) fn print(&self, printed: &Output) -> io::Result<()> {
        let result = match &self.document {
            Some(document) => add(document, printed),
            None => write(printed.stream, &self.labelled(printed)),
        };
        result.map_err(|error| match error {
            CliError::Output(error) => error,
            other => io::Error::other(other.to_string()),
        })
    }

    fn labelled(&self, printed: &Output) -> Vec<u8> {
        if !self.is_labelled {
            return printed.bytes.clone();
        }
        let label = format!("[{}] ", printed.rank);
        let lines = printed.bytes.split_inclusive(|byte| *byte == b'\n');
        lines
            .flat_map(|line| [label.as_bytes(), line].concat())
            .collect()
    }

    /// Closes the document, also that of a job that was not started.
    pub(super) fn end(&self, tasks: &[TaskEnd], exit_code: u8) -> Result<(), CliError> {
        let Some(document) = &self.document else {
            return Ok(());
        };
        let growing = document
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        growing.map_or(Ok(()), |growing| growing.end(&Tail { tasks, exit_code }))
    }
}

fn write(stream: Stream, bytes: &[u8]) -> Result<(), CliError> {
    match stream {
        Stream::Out => output::write(bytes),
        Stream::Error => output::write_aside(bytes).map_err(CliError::Output),
    }
}

fn add(document: &Mutex<Option<Growing>>, printed: &Output) -> Result<(), CliError> {
    let mut document = document.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(growing) = document.as_mut() else {
        return Ok(());
    };
    let text = String::from_utf8_lossy(&printed.bytes);
    text.split_terminator('\n').try_for_each(|text| {
        growing.push(&Line {
            rank: printed.rank,
            stream: match printed.stream {
                Stream::Out => "stdout",
                Stream::Error => "stderr",
            },
            text,
        })
    })
}
