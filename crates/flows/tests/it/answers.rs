//! Two processes that answer each other by flows, and sleep meanwhile.

use std::time::Instant;

use crate::support::{BOUND, Flow, Pair, agreed, blocking, direct};

#[test]
fn sleeping_peers_answer_messages_of_all_sizes() {
    let mut pair = Pair::new();
    let mut there = pair.flow(&blocking(), agreed(32), direct);
    there.carry_first(&mut pair.a, &[0]);
    let mut back = pair.flow_back(&blocking(), agreed(32));
    back.carry_first(&mut pair.b, &[0]);
    let (node, answering) = (pair.a.node.clone(), pair.b.node.clone());
    const ROUNDS: u32 = 40;
    for bytes in [64, 8 << 10, 64 << 10, 512 << 10] {
        let Flow {
            publisher: asks,
            subscriber: asked,
            ..
        } = &mut there;
        let Flow {
            publisher: answers,
            subscriber: answered,
            ..
        } = &mut back;
        let start = Instant::now();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for _ in 0..ROUNDS {
                    let sample = asked.take(BOUND).expect("sound").expect("asked");
                    assert_eq!(sample.len(), bytes);
                    let lease = answering.lease(bytes).expect("a slot");
                    answers.publish(lease, bytes).expect("published");
                }
            });
            for _ in 0..ROUNDS {
                let lease = node.lease(bytes).expect("a slot");
                asks.publish(lease, bytes).expect("published");
                let sample = answered.take(BOUND).expect("sound").expect("answered");
                assert_eq!(sample.len(), bytes);
            }
        });
        println!("{bytes} bytes: {:?} for each", start.elapsed() / ROUNDS);
    }
    assert_eq!(there.subscriber.statistics().dropped, 0);
    assert_eq!(back.subscriber.statistics().dropped, 0);
}
