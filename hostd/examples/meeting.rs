//! A task of the tests of jobs: `meeting before` or `meeting during`. The last of those that were
//! started together ends before the others come together, or while they wait; they say what a
//! barrier, a reduction and a barrier for their number tell them.

use std::error::Error;
use std::time::Duration;

use hythe::tasks::{Task, TaskError, Wanted};

/// Far beyond what anything here takes.
const LONG: Duration = Duration::from_secs(60);
/// The others come to the barrier in that time, or a little later: it ends the same.
const WHILE: Duration = Duration::from_millis(200);
const TAG: u32 = 1;

fn say(what: &str, result: Result<(), TaskError>) {
    match result {
        Ok(()) => println!("{what}: all have come"),
        Err(error) => println!("{what}: {error}"),
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let is_before = std::env::args().nth(1).is_some_and(|mode| mode == "before");
    let mut task = Task::join()?;
    let group = task.sibling_group();
    task.join_group("all")?;
    group.barrier(&mut task, LONG)?;
    let victim = *task.siblings().last().ok_or("there are none")?;
    if task.id() == victim {
        if !is_before {
            task.receive(Wanted::any(), LONG)?.ok_or("no word came")?;
            std::thread::sleep(WHILE);
        }
        // Without a word: nothing is dropped.
        std::process::exit(0);
    }
    if is_before {
        task.notify_end(victim)?;
        task.take_end(LONG)?.ok_or("it does not end")?;
    } else if task.rank() == 0 {
        task.send(victim, TAG, b"go")?;
    }
    say("barrier", group.barrier(&mut task, LONG));
    let sum = group.reduce(&mut task, 0, &[1_u64], |one, other| one + other, LONG);
    if task.rank() == 0 {
        say("reduction", sum.map(drop));
    }
    let count = task.size();
    let counted = task.barrier("all", count, LONG);
    say("counted", counted);
    // Else it might be this one that is missed.
    let first = *task.siblings().first().ok_or("there are none")?;
    if task.id() != first {
        task.notify_end(first)?;
        task.take_end(LONG)?.ok_or("it does not end")?;
    }
    Ok(())
}
