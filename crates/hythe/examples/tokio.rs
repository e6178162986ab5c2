//! Channels from tokio: a wait set is a file descriptor, and tokio waits for it like for a socket.
//!
//! `cargo run -p hythe --example tokio`. A thread with a node of its own publishes on two channels;
//! one task receives from both, while another keeps time. No thread of the runtime ever blocks.

use std::error::Error;
use std::time::Duration;

use hythe::wait::{Event, WaitSet};
use hythe::{Node, Pool, PoolOptions, PortPolicy, PublisherOptions, Subscriber, SubscriberOptions};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

const MESSAGES: u32 = 100;

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// The ports that have something, as soon as there are any.
async fn ready(wait_set: &mut AsyncFd<WaitSet>) -> Outcome<Vec<Event>> {
    loop {
        let mut guard = wait_set.readable_mut().await?;
        let events = guard.get_inner_mut().wait(Duration::ZERO)?.to_vec();
        if !events.is_empty() {
            return Ok(events);
        }
        // Only behind a look that found nothing: from then on a message makes the descriptor
        // readable.
        guard.clear_ready();
    }
}

/// Takes `MESSAGES` from each channel.
async fn receive(node: Node) -> Outcome<()> {
    let options = SubscriberOptions::default().policy(PortPolicy::Block { timeout_ms: 10_000 });
    let mut wait_set = node.wait_set()?;
    let mut ports = Vec::new();
    for channel in ["left", "right"] {
        let mut subscriber = node.subscriber(channel, &options)?;
        let token = wait_set.attach(&mut subscriber)?;
        ports.push((token, subscriber, 0));
    }
    println!("ready");
    #[allow(
        deprecated,
        reason = "what replaces it is unsafe; the promise it asks for is kept: a wait set owns its descriptor until it is dropped"
    )]
    let mut wait_set = AsyncFd::with_interest(wait_set, Interest::READABLE)?;
    while ports.iter().any(|(_, _, count)| *count < MESSAGES) {
        for event in ready(&mut wait_set).await? {
            for (token, subscriber, count) in &mut ports {
                if *token == event.token() {
                    *count += take_all(subscriber)?;
                }
            }
        }
    }
    for (_, subscriber, count) in &ports {
        println!("{}: {count} messages", subscriber.channel());
    }
    Ok(())
}

fn take_all(subscriber: &mut Subscriber) -> Outcome<u32> {
    let mut count = 0;
    while let Some(sample) = subscriber.try_take()? {
        assert_eq!(sample.len(), 4, "as published");
        count += 1;
    }
    Ok(count)
}

/// The other side: any process, any thread.
fn publish(pool: &Pool) -> Outcome<()> {
    let node = Node::join(pool, "publisher")?;
    // As long as its subscribers ask to be waited for: none of them is a stranger.
    let publishing = PublisherOptions::default().send_timeout(Duration::from_secs(10));
    let mut publishers = [
        node.publisher("left", &publishing)?,
        node.publisher("right", &publishing)?,
    ];
    for publisher in &mut publishers {
        publisher.wait_for_subscribers(1, Duration::from_secs(10))?;
    }
    for number in 0..MESSAGES {
        for publisher in &mut publishers {
            let mut lease = publisher.lease(4)?;
            lease.write(0, &number.to_le_bytes());
            publisher.publish(lease, 4)?;
        }
        // Now and then a pause, so that the receiver sleeps.
        if number % 10 == 0 {
            std::thread::sleep(Duration::from_millis(2));
        }
    }
    Ok(())
}

fn main() -> Outcome<()> {
    let options = PoolOptions::new("example-tokio").bytes(16 << 20);
    let pool = Pool::open_or_create(&options)?;
    let node = Node::join(&pool, "tokio")?;
    let other = pool.clone();
    let publishing = std::thread::spawn(move || publish(&other));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let mut ticks = tokio::time::interval(Duration::from_millis(5));
        let clock = tokio::spawn(async move {
            loop {
                ticks.tick().await;
            }
        });
        let done = receive(node).await;
        clock.abort();
        done
    })?;
    publishing.join().map_err(|_| "the publisher panicked")??;
    drop(pool);
    Pool::remove(&options)?;
    Ok(())
}
