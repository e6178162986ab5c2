//! A job of two tasks of the tests: `exchange FILE`. The first sends numbers to the other, which
//! sends each back, until there is that file; it says `exchanged all`, if all came in order.

use std::error::Error;
use std::path::Path;
use std::time::Duration;

use hythe::tasks::{Task, Wanted};

/// Far beyond what anything here takes.
const LONG: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(1);
const NUMBER: u32 = 1;
const ENOUGH: u32 = 2;

fn main() -> Result<(), Box<dyn Error>> {
    let file = std::env::args().nth(1).ok_or("usage: exchange FILE")?;
    let mut task = Task::join()?;
    let siblings = task.siblings();
    let [first, second] = siblings[..] else {
        return Err("there are to be two".into());
    };
    if task.id() == second {
        loop {
            let message = task.receive(Wanted::any().from(first), LONG)?;
            let message = message.ok_or("nothing comes")?;
            if message.tag() == ENOUGH {
                return Ok(());
            }
            task.send(first, NUMBER, &message.into_vec())?;
        }
    }
    for number in 0_u64.. {
        if Path::new(&file).exists() {
            break;
        }
        task.send(second, NUMBER, &number.to_ne_bytes())?;
        let back = task.receive(Wanted::any().from(second), LONG)?;
        if back.ok_or("nothing comes back")?.into_vec() != number.to_ne_bytes() {
            return Err(format!("it is not {number} that comes back").into());
        }
        std::thread::sleep(PAUSE);
    }
    task.send(second, ENOUGH, b"")?;
    println!("exchanged all");
    Ok(())
}
