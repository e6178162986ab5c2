//! A task of the tests of jobs: `spawner HOST PROGRAM` spawns a program on a host of its job, and
//! says `spawned TASK` and `ended TASK`, or why it cannot.

use std::error::Error;
use std::time::Duration;

use hythe::tasks::{SpawnOptions, SpawnPlace, Task};

/// Far beyond what anything here takes.
const LONG: Duration = Duration::from_secs(60);

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [host, program] = &words[..] else {
        return Err("usage: spawner HOST PROGRAM".into());
    };
    let mut task = Task::join()?;
    let place = SpawnPlace::Host(host.clone());
    match task.spawn(&SpawnOptions::new(program).place(place)) {
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
