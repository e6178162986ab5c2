//! A task of the tests of flows: `task publish CHANNEL` or `task subscribe CHANNEL`, in the pool
//! that the agent serves.
//!
//! A publisher reads lines `COUNT PAUSE_MS` from its input, publishes so many messages, and says
//! `sent`; each has the next number and a length and bytes that come of it. A subscriber says
//! `got NUMBER LENGTH` of each that is as it was sent, `got ? LENGTH` of one that is too short to
//! have a number, and `missed COUNT` when some did not come. Both end with their input.

use std::error::Error;
use std::io::{BufRead as _, stdin};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use hythe::prelude::*;

/// Far beyond what anything here takes.
const LONG: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(100);
/// Of messages one after the other.
const LENGTHS: [usize; 10] = [0, 1, 64, 1_200, 1_500, 9_000, 65_536, 0, 300_000, 1 << 20];
/// The longest message begins with this many bytes of pattern, and one more for each number.
const PATTERN_BYTES: usize = 256;

/// The bytes of a message: from another place of the same pattern for each number.
fn message(number: u32) -> Vec<u8> {
    static PATTERN: OnceLock<Vec<u8>> = OnceLock::new();
    let longest = LENGTHS.iter().max().copied().unwrap_or(0);
    let pattern = PATTERN.get_or_init(|| {
        let mut state = 1_u32;
        let next = |_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8
        };
        (0..longest + PATTERN_BYTES).map(next).collect()
    });
    let start = number as usize % PATTERN_BYTES;
    let length = LENGTHS[number as usize % LENGTHS.len()];
    let mut bytes = pattern[start..start + length].to_vec();
    if let Some(first) = bytes.first_chunk_mut() {
        *first = number.to_le_bytes();
    }
    bytes
}

fn publish(node: &Node, channel: &str) -> Result<(), Box<dyn Error>> {
    let options = PublisherOptions::default().send_timeout(LONG);
    let mut publisher = node.publisher(channel, &options)?;
    if !publisher.wait_for_subscribers(1, LONG)? {
        return Err("nobody has subscribed".into());
    }
    let mut number = 0;
    for line in stdin().lock().lines() {
        let line = line?;
        let (count, pause_ms) = line.split_once(' ').ok_or("COUNT PAUSE_MS")?;
        let pause = Duration::from_millis(pause_ms.parse()?);
        for _ in 0..count.parse::<u32>()? {
            let bytes = message(number);
            let mut lease = publisher.lease(bytes.len())?;
            lease.write(0, &bytes);
            publisher.publish(lease, bytes.len())?;
            number += 1;
            std::thread::sleep(pause);
        }
        println!("sent");
    }
    Ok(())
}

fn subscribe(node: &Node, channel: &str) -> Result<(), Box<dyn Error>> {
    let has_ended = Arc::new(AtomicBool::new(false));
    let ending = Arc::clone(&has_ended);
    std::thread::spawn(move || {
        stdin().lock().lines().for_each(drop);
        ending.store(true, Ordering::Relaxed);
    });
    let options = SubscriberOptions::default()
        .policy(PortPolicy::Block { timeout_ms: 30_000 })
        .depth(32);
    let mut subscriber = node.subscriber(channel, &options)?;
    println!("ready");
    let mut missed = 0;
    while !has_ended.load(Ordering::Relaxed) {
        let sample = subscriber.take(LOOK)?;
        let now = subscriber.statistics().dropped;
        if now > missed {
            println!("missed {}", now - missed);
            missed = now;
        }
        let Some(sample) = sample else { continue };
        let bytes = sample.to_vec();
        let number = bytes.first_chunk().map(|first| u32::from_le_bytes(*first));
        match number {
            Some(number) if bytes != message(number) => {
                return Err(format!("message {number} is damaged").into());
            }
            Some(number) => println!("got {number} {}", bytes.len()),
            None => println!("got ? {}", bytes.len()),
        }
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [role, channel] = &words[..] else {
        return Err("usage: task publish|subscribe CHANNEL".into());
    };
    let pool = Pool::open_or_create(&PoolOptions::new("default"))?;
    let node = Node::join(&pool, role)?;
    match role.as_str() {
        "subscribe" => subscribe(&node, channel),
        _ => publish(&node, channel),
    }
}
