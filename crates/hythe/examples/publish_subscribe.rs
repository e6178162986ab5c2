//! Values of a type from one program to another, on this host or another one (`hythe host`).
//!
//! `cargo run -p hythe --example publish_subscribe -- subscribe POOL COUNT` prints `COUNT` poses,
//! `… publish POOL COUNT` publishes them. Start any number of each, in any order. Never waits
//! longer than ten seconds for anybody.

use std::error::Error;
use std::time::Duration;

use hythe::prelude::*;
use hythe::typed::Payload;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

const TIMEOUT: Duration = Duration::from_secs(10);

/// Both sides must mean the same by it: name, size, alignment and version are compared.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Pose {
    position: [f64; 3],
    heading: f64,
}

impl Payload for Pose {
    const NAME: &'static str = "pose";
    const VERSION: u32 = 1;
}

fn subscribe(node: &Node, count: u32) -> Result<(), Box<dyn Error>> {
    let options = SubscriberOptions::default().policy(PortPolicy::Block { timeout_ms: 10_000 });
    let mut poses = node.typed_subscriber::<Pose>("poses", &options)?;
    for _ in 0..count {
        let sample = poses.take(TIMEOUT)?.ok_or("nobody has published")?;
        let Pose { position, heading } = sample.read();
        println!("{position:?} {heading}");
    }
    Ok(())
}

fn publish(node: &Node, count: u32) -> Result<(), Box<dyn Error>> {
    let options = PublisherOptions::default().send_timeout(TIMEOUT);
    let mut poses = node.typed_publisher::<Pose>("poses", &options)?;
    if !poses.raw().wait_for_subscribers(1, TIMEOUT)? {
        return Err("nobody has subscribed".into());
    }
    for number in 0..count {
        let step = f64::from(number);
        let position = [step, 2.0 * step, 0.5];
        poses.publish(&Pose {
            position,
            heading: step / 4.0,
        })?;
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [role, pool, count] = &words[..] else {
        return Err("usage: publish_subscribe subscribe|publish POOL COUNT".into());
    };
    let pool = Pool::open_or_create(&PoolOptions::new(pool))?;
    let (node, count) = (Node::join(&pool, role)?, count.parse()?);
    match role.as_str() {
        "subscribe" => subscribe(&node, count),
        _ => publish(&node, count),
    }
}
