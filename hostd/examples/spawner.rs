//! A task of the tests of jobs: `spawner HOST PROGRAM [ARGUMENT...]` spawns a program on a host of
//! its job, and says `spawned TASK` and `ended TASK`, or why it cannot.

use std::error::Error;
use std::time::Duration;

use hythe::tasks::{SpawnOptions, SpawnPlace, Task};

/// Far beyond what anything here takes.
const LONG: Duration = Duration::from_secs(60);

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [host, program, arguments @ ..] = &words[..] else {
        return Err("usage: spawner HOST PROGRAM [ARGUMENT...]".into());
    };
    let mut task = Task::join()?;
    let options = SpawnOptions::new(program).place(SpawnPlace::Host(host.clone()));
    let options = arguments
        .iter()
        .fold(options, |options, argument| options.argument(argument));
    match task.spawn(&options) {
        Ok(spawned) => {
            for child in spawned {
                println!("spawned {child}");
                task.notify_end(child)?;
            }
            let ended = task.take_end(LONG)?.ok_or("it does not end")?;
            println!("ended {ended}");
        }
        Err(error) => println!("{error}"),
    }
    Ok(())
}
