//! A job of the tests: `flood COUNT BYTES`. All but the first send so many messages of that length
//! to it, and go; it receives only after a while, and says `got COUNT from TASK` when all have come
//! as they were sent, in order.

use std::error::Error;
use std::time::Duration;

use hythe::tasks::{Task, Wanted};

/// Far beyond what anything here takes.
const LONG: Duration = Duration::from_secs(60);
/// Longer than a publisher is held up for a subscriber of another host.
const SLOW: Duration = Duration::from_secs(3);

fn message(number: u32, bytes: usize) -> Vec<u8> {
    let mut message = vec![number as u8; bytes];
    message[..4].copy_from_slice(&number.to_le_bytes());
    message
}

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [count, bytes] = &words[..] else {
        return Err("usage: flood COUNT BYTES".into());
    };
    let (count, bytes): (u32, usize) = (count.parse()?, bytes.parse()?);
    let mut task = Task::join()?;
    let siblings = task.siblings();
    if task.rank() > 0 {
        for number in 0..count {
            task.send(siblings[0], number, &message(number, bytes))?;
        }
        return Ok(());
    }
    std::thread::sleep(SLOW);
    for sender in &siblings[1..] {
        for number in 0..count {
            let received = task.receive(Wanted::any().from(*sender), LONG)?;
            let received = received.ok_or_else(|| format!("message {number} does not come"))?;
            if received.tag() != number || received.into_vec() != message(number, bytes) {
                return Err(format!("message {number} is not the next of {sender}").into());
            }
        }
        println!("got {count} from {sender}");
    }
    match task.violations() {
        0 => Ok(()),
        some => Err(format!("{some} pieces fit nowhere").into()),
    }
}
