//! Events without data between two programs, on this host or another one (`hythe host`).
//!
//! `cargo run -p hythe --example events -- listen POOL` prints the events of one wait, `… raise
//! POOL` raises two as soon as somebody listens. Never waits longer than ten seconds for anybody.

use std::error::Error;
use std::time::{Duration, Instant};

use hythe::event::EventId;
use hythe::prelude::*;

const TIMEOUT: Duration = Duration::from_secs(10);
const DOOR: EventId = EventId::new(3).expect("one of 40");
const WINDOW: EventId = EventId::new(17).expect("one of 40");

fn listen(node: &Node) -> Result<(), Box<dyn Error>> {
    let mut listener = node.listener("house")?;
    let heard = listener.wait(TIMEOUT)?;
    for (event, name) in [(DOOR, "door"), (WINDOW, "window")] {
        if heard.contains(event) {
            println!("{name}");
        }
    }
    Ok(())
}

fn raise(node: &Node) -> Result<(), Box<dyn Error>> {
    let mut notifier = node.notifier("house")?;
    let since = Instant::now();
    // Nobody is told of what is raised before anybody listens.
    while notifier.notify(DOOR)? == 0 {
        if since.elapsed() > TIMEOUT {
            return Err("nobody listens".into());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    notifier.notify(WINDOW)?;
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [role, pool] = &words[..] else {
        return Err("usage: events listen|raise POOL".into());
    };
    let pool = Pool::open_or_create(&PoolOptions::new(pool))?;
    let node = Node::join(&pool, role)?;
    match role.as_str() {
        "listen" => listen(&node),
        _ => raise(&node),
    }
}
