//! How far a LAN of agents carries: `scale [COUNT...]` prints a row of a table for each count of
//! hosts, 2, 8 and 32 unless told otherwise. `docs/guide/hosts.md` has the table.
//!
//! Each host is a network namespace with the agent as it is shipped, on one switch. Measured are
//! the time until all know of a join and of a death, the bytes that an idle host sends and receives
//! in a second, and the memory of an agent. Needs root; leaves nothing behind.

#[path = "../tests/it/network/mod.rs"]
mod network;

use std::time::{Duration, Instant};

use hythe_node::{Pool, PoolOptions};
use network::agent::{Host, LONG};
use network::{Lan, is_skipped};

/// Joins and deaths of the last host.
const ROUNDS: usize = 5;
/// How long idle hosts are watched.
const IDLE: Duration = Duration::from_secs(20);
const POOL_BYTES: usize = 8 << 20;
const LOOK: Duration = Duration::from_millis(5);

fn main() {
    if is_skipped() {
        return;
    }
    let counts: Vec<u8> = std::env::args()
        .skip(1)
        .map(|count| count.parse().expect("a count of hosts, at most 250"))
        .collect();
    println!(
        "| agents | all know of a join | all know of a death | bytes each host and second | \
         memory of an agent |"
    );
    println!("| --- | --- | --- | --- | --- |");
    let counts = if counts.is_empty() {
        vec![2, 8, 32]
    } else {
        counts
    };
    for count in counts {
        println!("{}", row(count));
    }
}

fn row(count: u8) -> String {
    let lan = Lan::new(1);
    let hosts = realm(&lan, count);
    for (host, name) in hosts.iter().zip(names()) {
        let others = hosts.iter().filter(|other| !std::ptr::eq(*other, host));
        all_know(&others.collect::<Vec<_>>(), &name, true);
    }
    let name = names().nth(hosts.len() - 1).expect("endless");
    let (last, others) = hosts.split_last().expect("two hosts");
    let others: Vec<&Host> = others.iter().collect();
    let traffic = traffic(&hosts);
    let memory = median(hosts.iter().map(|host| pss_kib(agent_of(host))).collect());
    let (mut joins, mut deaths) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        kill(agent_of(last));
        deaths.push(all_know(&others, &name, false));
        let started = Instant::now();
        last.said(&["start"]);
        all_know(&others, &name, true);
        joins.push(started.elapsed().as_millis() as u64);
    }
    format!(
        "| {count} | {} ms | {} ms | {traffic} | {} MiB |",
        median(joins),
        median(deaths),
        memory / 1024
    )
}

/// Hosts whose agents run. Their pools are small: there are many on this machine.
fn realm(lan: &Lan, count: u8) -> Vec<Host> {
    let mut hosts: Vec<Host> = Vec::new();
    for (number, name) in (1..=count).zip(names()) {
        let host = Host::on(lan, number);
        let options = PoolOptions::new("default")
            .root(&host.path("pools"))
            .bytes(POOL_BYTES);
        Pool::open_or_create(&options).expect("a pool");
        match hosts.first() {
            None => {
                let address = host.plug.address();
                host.said(&["init", "--name", &name, "--address", &address]);
                host.said(&["start"]);
            }
            Some(first) => {
                first.take_in(&host, &name);
            }
        }
        hosts.push(host);
    }
    hosts
}

fn names() -> impl Iterator<Item = String> {
    (1..).map(|number| format!("h{number}"))
}

/// Waits until every one of them has a session with a host, or none has; says how long it took, in
/// milliseconds.
fn all_know(hosts: &[&Host], other: &str, is_there: bool) -> u64 {
    let since = Instant::now();
    let mut unsure = hosts.to_vec();
    while !unsure.is_empty() {
        assert!(since.elapsed() < LONG, "not within {LONG:?}");
        unsure.retain(|host| host.is_connected_with(other) != is_there);
        std::thread::sleep(LOOK);
    }
    since.elapsed().as_millis() as u64
}

/// Bytes that each of them sends and receives in a second while nothing is published.
fn traffic(hosts: &[Host]) -> u64 {
    let before: u64 = hosts.iter().map(bytes).sum();
    std::thread::sleep(IDLE);
    let after: u64 = hosts.iter().map(bytes).sum();
    (after - before) / hosts.len() as u64 / IDLE.as_secs()
}

/// Of all packets of its interface, headers included, so far.
fn bytes(host: &Host) -> u64 {
    let interface = host.plug.interface();
    // `/proc/net` of a process in the network.
    let table = std::fs::read_to_string(format!("/proc/{}/net/dev", host.space.id()));
    let table = table.expect("readable");
    let lines = table.lines().map(str::trim);
    let mut own = lines.filter_map(|line| line.strip_prefix(&format!("{interface}:")));
    let numbers: Vec<u64> = own
        .next()
        .expect("its interface")
        .split_whitespace()
        .map(|word| word.parse().expect("a number"))
        .collect();
    // Received, and sent eight columns behind.
    numbers[0] + numbers[8]
}

fn agent_of(host: &Host) -> u32 {
    host.status().expect("an agent runs").pid
}

/// As a crash would end it. It is no child of this program.
fn kill(pid: u32) {
    let pid = rustix::process::Pid::from_raw(pid.cast_signed()).expect("a process");
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).expect("it runs");
}

/// Memory of a process, shared pages by their share.
fn pss_kib(pid: u32) -> u64 {
    let path = format!("/proc/{pid}/smaps_rollup");
    let text = std::fs::read_to_string(path).expect("readable");
    let line = text.lines().find_map(|line| line.strip_prefix("Pss:"));
    let kib = line.and_then(|rest| rest.split_whitespace().next());
    kib.and_then(|kib| kib.parse().ok()).expect("a number")
}

fn median(mut values: Vec<u64>) -> u64 {
    values.sort_unstable();
    values[values.len() / 2]
}
