#[path = "../tests/support/mod.rs"]
mod support;
use hythe_node::{PortPolicy, SubscriberOptions};
use std::net::UdpSocket;
use std::time::{Duration, Instant};
use support::{Pair, agreed};

fn pin(cpu: usize) {
    let mut set = rustix::thread::CpuSet::new();
    set.set(cpu);
    rustix::thread::sched_setaffinity(None, &set).unwrap();
}

fn floor(bytes: usize, spin: bool, rounds: u32) -> Vec<u64> {
    let a = UdpSocket::bind("127.0.0.1:0").unwrap();
    let b = UdpSocket::bind("127.0.0.1:0").unwrap();
    a.connect(b.local_addr().unwrap()).unwrap();
    b.connect(a.local_addr().unwrap()).unwrap();
    a.set_nonblocking(spin).unwrap();
    b.set_nonblocking(spin).unwrap();
    let echo = std::thread::spawn(move || {
        pin(1);
        let mut buf = vec![0; 2000];
        for _ in 0..rounds {
            let n = loop {
                if let Ok(n) = b.recv(&mut buf) {
                    break n;
                }
            };
            b.send(&buf[..n]).unwrap();
        }
    });
    pin(0);
    let buf = vec![0; bytes];
    let mut into = vec![0; 2000];
    let mut times = Vec::new();
    for _ in 0..rounds {
        let t = Instant::now();
        a.send(&buf).unwrap();
        loop {
            if a.recv(&mut into).is_ok() {
                break;
            }
        }
        times.push(t.elapsed().as_nanos() as u64);
    }
    echo.join().unwrap();
    times
}

fn flows(bytes: usize, spin: bool, rounds: u32) -> Vec<u64> {
    let options = SubscriberOptions::default().policy(PortPolicy::Block { timeout_ms: 60_000 });
    let mut pair = Pair::new();
    let mut ping = pair.flow(&options, agreed(32), support::direct);
    let mut pong = pair.flow_back(&options, agreed(32));
    ping.publish(&pair.a.node, &[1]);
    ping.go(&mut pair.a);
    ping.take();
    pong.publish(&pair.b.node, &[1]);
    pong.go(&mut pair.b);
    pong.take();
    let wait = move |sub: &mut hythe_node::Subscriber| {
        if spin {
            loop {
                if let Some(s) = sub.try_take().unwrap() {
                    return s;
                }
            }
        }
        sub.take(Duration::from_secs(5)).unwrap().unwrap()
    };
    let (publisher, pong_sub) = (&mut ping.publisher, &mut pong.subscriber);
    let (pong_pub, ping_sub) = (&mut pong.publisher, &mut ping.subscriber);
    let (a, b) = (&pair.a.node, &pair.b.node);
    let mut times = Vec::new();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            pin(1);
            for _ in 0..rounds {
                drop(wait(ping_sub));
                let lease = b.lease(bytes).unwrap();
                pong_pub.publish(lease, bytes).unwrap();
            }
            for _ in 0..100 {
                ping_sub.try_take().unwrap();
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        pin(0);
        for _ in 0..rounds {
            let t = Instant::now();
            let lease = a.lease(bytes).unwrap();
            publisher.publish(lease, bytes).unwrap();
            drop(wait(pong_sub));
            times.push(t.elapsed().as_nanos() as u64);
        }
    });
    times
}

fn show(name: &str, mut times: Vec<u64>) {
    times.sort_unstable();
    println!(
        "{name}: p10 {} p50 {} min {}",
        times[times.len() / 10],
        times[times.len() / 2],
        times[0]
    );
}

fn main() {
    let rounds = std::env::args().nth(1).map_or(5000, |n| n.parse().unwrap());
    if rounds > 5000 {
        show(
            "flows",
            flows(64, std::env::args().nth(2).is_none(), rounds),
        );
        return;
    }
    for _ in 0..2 {
        for spin in [true, false] {
            show(&format!("floor spin={spin}"), floor(64, spin, rounds));
            show(&format!("flows spin={spin}"), flows(64, spin, rounds));
        }
    }
    for size in [4096, 65536, 1 << 20] {
        show(&format!("flows {size}"), flows(size, true, 300));
    }
}
