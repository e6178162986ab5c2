//! A core without an agent: a program that shares no memory with Linux runs to its end.

use std::path::Path;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};

use crate::process::{self, Places, Process};
use crate::{Board, CoreError};

/// How often is asked whether to give up.
const LOOK: Duration = Duration::from_millis(50);
/// Of what its process says, so much is kept.
const SAID_BYTES_MAX: usize = 4096;

/// Runs an application of `board` until its core ends by itself, which it does when its work is
/// done. What it tells is in the record that its emulator leaves in `record`
/// ([`crate::Repeatable`]).
///
/// # Errors
/// [`CoreError::NotRunnable`], [`CoreError::GivenUp`]; [`CoreError::NoAnswer`]: it did not end
/// within `bound`; [`CoreError::Died`]: its process failed. Nothing of it is left then.
pub fn run_alone(
    board: &Board,
    app: &str,
    record: &Path,
    bound: Duration,
    give_up: impl Fn() -> bool,
) -> Result<(), CoreError> {
    let mut missing = board.missing(app);
    if !board.runs_alone(app) {
        missing.push("it shares memory with Linux, and needs an agent".to_owned());
    }
    let name = board.name().to_owned();
    if !missing.is_empty() {
        return Err(CoreError::NotRunnable {
            board: name,
            missing,
        });
    }
    let places = Places {
        image: &board.image(app),
        pool: None,
        record: Some(record),
        outlives_agent: false,
    };
    let mut process = process::start_process(board, &places)?;
    let deadline = Instant::now() + bound;
    let mut said = Vec::new();
    while !has_ended(&process, &mut said) {
        if give_up() {
            return Err(CoreError::GivenUp { board: name });
        }
        if Instant::now() > deadline {
            return Err(CoreError::NoAnswer {
                board: name,
                what: "come to its end",
                bound,
                log: lines(&said),
            });
        }
    }
    let (good, how) = process.reap_well();
    if good {
        return Ok(());
    }
    Err(CoreError::Died {
        board: name,
        how,
        log: lines(&said),
    })
}

/// Waits a little, and listens meanwhile.
fn has_ended(process: &Process, said: &mut Vec<u8>) -> bool {
    let mut asked = vec![PollFd::new(process.pidfd(), PollFlags::IN)];
    asked.extend(
        process
            .voices()
            .map(|voice| PollFd::from_borrowed_fd(voice, PollFlags::IN)),
    );
    let ready = hythe_sys::wait::ready(&mut asked, LOOK);
    drop(asked);
    let ended = ready[0];
    for (voice, &heard) in process.voices().zip(&ready[1..]) {
        let mut bytes = [0; 1024];
        if heard && let Ok(count) = rustix::io::read(voice, &mut bytes) {
            said.extend_from_slice(&bytes[..count]);
            said.truncate(SAID_BYTES_MAX);
            if count == 0 && !ended {
                // A closed voice stays ready: do not let it turn this wait into spinning.
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }
    ended
}

fn lines(said: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(said);
    text.lines().map(str::to_owned).collect()
}
