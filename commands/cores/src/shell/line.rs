//! Where the commands of the shell come from: its argument, standard input, or a terminal, edited
//! and with the lines of before.
//!
//! Hands them out one by one. The end of input and a request to stop are the same: no command
//! comes any more. Never leaves a terminal in another mode than it found it in.

use std::collections::VecDeque;
use std::io::{self, IsTerminal, Stdin};
use std::os::fd::AsFd;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};

use hythe_command::error::CliError;
use hythe_command::stop::{LOOK, Stop};
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcsetattr};
use rustyline::error::ReadlineError;
use rustyline::history::MemHistory;
use rustyline::{Config, Editor};

/// No line is longer.
const LINE_BYTES: usize = 4096;

/// Commands, one by one.
pub(super) struct Commands<'a> {
    /// Of the line that was read last.
    ready: VecDeque<String>,
    source: Source<'a>,
}

enum Source<'a> {
    /// There is no more.
    Argument,
    Pipe(Pipe<'a>),
    Terminal(Terminal<'a>),
}

impl<'a> Commands<'a> {
    /// Those of the argument, if it was given; else those of standard input.
    pub(super) fn new(
        argument: Option<&str>,
        json: bool,
        stop: &'a Stop,
    ) -> Result<Self, CliError> {
        let (stdin, stdout) = (io::stdin(), io::stdout());
        let source = match argument {
            Some(_) => Source::Argument,
            // With a document on it, standard output is not where lines are edited.
            None if !json && stdin.is_terminal() && stdout.is_terminal() => {
                Source::Terminal(Terminal::open(stop)?)
            }
            None => Source::Pipe(Pipe {
                stop,
                stdin,
                read: Vec::new(),
                ended: false,
            }),
        };
        Ok(Self {
            ready: argument.map(split).unwrap_or_default(),
            source,
        })
    }

    /// Does a person type them?
    pub(super) const fn is_typed(&self) -> bool {
        matches!(self.source, Source::Terminal(_))
    }

    /// The next one. `None`: there will be no more.
    pub(super) fn next(&mut self, prompt: &str) -> Result<Option<String>, CliError> {
        loop {
            if let Some(command) = self.ready.pop_front() {
                return Ok(Some(command));
            }
            let line = match &mut self.source {
                Source::Argument => None,
                Source::Pipe(pipe) => pipe.line()?,
                Source::Terminal(terminal) => terminal.line(prompt)?,
            };
            match line {
                Some(line) => self.ready = split(&line),
                None => return Ok(None),
            }
        }
    }

    /// Leaves out the other commands of a line that has failed.
    pub(super) fn skip_line(&mut self) {
        self.ready.clear();
    }
}

fn split(text: &str) -> VecDeque<String> {
    let commands = text.split([';', '\n']).map(str::trim);
    commands
        .filter(|command| !command.is_empty())
        .map(str::to_owned)
        .collect()
}

struct Pipe<'a> {
    stop: &'a Stop,
    stdin: Stdin,
    /// Read, and not handed out yet.
    read: Vec<u8>,
    ended: bool,
}

impl Pipe<'_> {
    fn line(&mut self) -> Result<Option<String>, CliError> {
        let line = self.read_line();
        let line = line.map_err(CliError::file("read", "standard input"))?;
        Ok(line.map(|line| String::from_utf8_lossy(&line).into_owned()))
    }

    /// Past the buffer of [`Stdin`], which what waits for input does not see.
    fn read_line(&mut self) -> io::Result<Option<Vec<u8>>> {
        loop {
            if let Some(end) = self.read.iter().position(|byte| *byte == b'\n') {
                let rest = self.read.split_off(end + 1);
                return Ok(Some(std::mem::replace(&mut self.read, rest)));
            }
            if self.ended {
                let last = std::mem::take(&mut self.read);
                return Ok((!last.is_empty()).then_some(last));
            }
            if self.read.len() > LINE_BYTES {
                let long = format!("a line is longer than {LINE_BYTES} bytes");
                return Err(io::Error::new(io::ErrorKind::InvalidData, long));
            }
            let stdin = self.stdin.as_fd();
            if !self.stop.wait_readable(stdin)? {
                return Ok(None);
            }
            let mut piece = [0; 1024];
            let count = rustix::io::retry_on_intr(|| rustix::io::read(stdin, &mut piece))?;
            self.ended = count == 0;
            self.read.extend_from_slice(&piece[..count]);
        }
    }
}

/// The editor waits for keys in a thread of its own, so that a request to stop ends the session
/// while nobody types.
struct Terminal<'a> {
    stop: &'a Stop,
    prompts: Sender<String>,
    lines: Receiver<Result<String, ReadlineError>>,
    /// What the terminal was like: an editor that still waits cannot restore it.
    found: Termios,
}

impl<'a> Terminal<'a> {
    fn open(stop: &'a Stop) -> Result<Self, CliError> {
        let fault = |error: &dyn std::fmt::Display| {
            CliError::Failed(format!("cannot edit lines on this terminal: {error}"))
        };
        let found = tcgetattr(io::stdin()).map_err(|error| fault(&error))?;
        let config = Config::builder().auto_add_history(true).build();
        let history = MemHistory::with_config(&config);
        let editor = Editor::<(), _>::with_history(config, history);
        let editor = editor.map_err(|error| fault(&error))?;
        let (prompts, asked) = channel();
        let (typed, lines) = channel();
        let edit = move || edit(editor, &asked, &typed);
        let thread = std::thread::Builder::new().name("hythe-editor".to_owned());
        thread.spawn(edit).map_err(|error| fault(&error))?;
        Ok(Self {
            stop,
            prompts,
            lines,
            found,
        })
    }

    fn line(&self, prompt: &str) -> Result<Option<String>, CliError> {
        if self.stop.asked() || self.prompts.send(prompt.to_owned()).is_err() {
            return Ok(None);
        }
        loop {
            match self.lines.recv_timeout(LOOK) {
                Ok(Ok(line)) => return Ok(Some(line)),
                Ok(Err(ReadlineError::Eof | ReadlineError::Interrupted)) => return Ok(None),
                Ok(Err(error)) => {
                    let failed = format!("cannot read from this terminal: {error}");
                    return Err(CliError::Failed(failed));
                }
                Err(RecvTimeoutError::Timeout) if self.stop.asked() => return Ok(None),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Ok(None),
            }
        }
    }
}

impl Drop for Terminal<'_> {
    fn drop(&mut self) {
        // A terminal that is gone needs no mode.
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, &self.found);
    }
}

/// One line for each prompt, until nobody asks any more.
fn edit(
    mut editor: Editor<(), MemHistory>,
    prompts: &Receiver<String>,
    lines: &Sender<Result<String, ReadlineError>>,
) {
    while let Ok(prompt) = prompts.recv() {
        if lines.send(editor.readline(&prompt)).is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_stand_between_semicolons_and_line_ends() {
        assert_eq!(
            split("open; run ;;test 1 2\n\n stop;"),
            ["open", "run", "test 1 2", "stop"]
        );
        assert!(split(" ;\n; ").is_empty());
    }
}
