//! Two LANs without an IP route between them, each with an agent that is a Zenoh router: a channel
//! crosses over the carrier `zenoh`, sealed from end to end, and outlives a router. It moves to TCP
//! when there is a way, and back.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::network::agent::{Host, LONG, eventually};
use crate::network::wire::Wire;
use crate::network::{Lan, Plug, is_skipped};
use hythe_cluster::Status;
use hythe_cluster::tasks::watch_host;
use hythe_node::{
    Node, Pool, PoolOptions, Published, Publisher, PublisherOptions, Subscriber, SubscriberOptions,
};
use hythe_testing::{let_time_pass, stays};

/// What the payload is made of; nothing else has it.
const MARKER: &[u8] = b"~hythe-marker-of-the-payload-7c1d~";
const PAYLOAD_BYTES: usize = 300_000;
/// Of all hosts, in seconds.
const LEASE: &str = "10";
/// Far more than a window, and than the queues of Zenoh.
const ROUNDS: usize = 30;

/// `a` and router `r` on one LAN, `b` and router `s` on the other; `r` and `s` share a third, and
/// `a` and `b` a fourth, over which nothing passes at first.
struct Site {
    a: Host,
    b: Host,
    r: Host,
    s: Host,
    link: [Plug; 2],
    direct: Lan,
    direct_plugs: [Plug; 2],
    _lans: [Lan; 3],
}

impl Site {
    fn new() -> Self {
        let [first, second, between, direct] = [1, 2, 3, 4].map(Lan::new);
        let (r, a) = (Host::on(&first, 1), Host::on(&first, 2));
        let (s, b) = (Host::on(&second, 1), Host::on(&second, 2));
        let link = [between.plug(&r.space, 1), between.plug(&s.space, 2)];
        let direct_plugs = [direct.plug(&a.space, 1), direct.plug(&b.space, 2)];
        r.said(&["init", "--name", "r", "--address", &r.plug.address()]);
        let lans = [first, second, between];
        let site = Self {
            a,
            b,
            r,
            s,
            link,
            direct,
            direct_plugs,
            _lans: lans,
        };
        site.set_direct(false);
        site.start_router(&site.r, 1);
        for (host, name) in [(&site.s, "s"), (&site.a, "a"), (&site.b, "b")] {
            site.r.take_in(host, name);
        }
        // A host that is wrongly taken for gone, on a machine under load, would lose messages.
        for host in [&site.r, &site.s, &site.a, &site.b] {
            kill(host);
        }
        site.start_router(&site.r, 1);
        site.start_router(&site.s, 0);
        for host in [&site.a, &site.b] {
            host.said(&["start", "--lease", LEASE]);
        }
        site
    }

    /// Whether `a` and `b` reach each other without routers. They do not notice.
    fn set_direct(&self, is_passing: bool) {
        for plug in self.direct_plugs {
            self.direct.set_passing(plug, is_passing);
        }
    }

    /// What carries the sessions of `a` and `b`.
    fn carriers(&self) -> [Option<String>; 2] {
        let ends = [(&self.a, "b"), (&self.b, "a")];
        ends.map(|(host, other)| Some(carrier(host.status(), other)?.0))
    }

    fn wait_for_carrier(&self, name: &str) {
        eventually(&format!("a and b are connected by {name}"), || {
            let carriers = self.carriers();
            carriers.iter().all(|one| one.as_deref() == Some(name))
        });
    }

    /// Linked to the router of the other LAN.
    fn start_router(&self, router: &Host, other: usize) {
        let peer = format!("{}:7451", self.link[other].address());
        let mut words = vec!["start", "--router", "--lease", LEASE];
        // One of two dials.
        if other == 1 {
            words.extend(["--peer", &peer]);
        }
        router.said(&words);
    }
}

fn carrier(status: Option<Status>, host: &str) -> Option<(String, String)> {
    let hosts = status.into_iter().flat_map(|status| status.hosts);
    let mut others = hosts.filter(|one| one.host.as_str() == host);
    let about = others.next()?.session?.connection;
    Some((about.carrier, about.why_not_better))
}

/// How often the marker is in what a process can write of its memory.
fn markers_in(pid: u32) -> usize {
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).expect("maps");
    let memory = File::open(format!("/proc/{pid}/mem")).expect("memory");
    let mut found = 0;
    for line in maps.lines().filter(|line| line.contains(" rw")) {
        let (from, to) = line
            .split_once(' ')
            .and_then(|(range, _)| range.split_once('-'))
            .expect("a range");
        let [from, to] = [from, to].map(|text| u64::from_str_radix(text, 16).expect("hexadecimal"));
        let mut bytes = vec![0; 1 << 20];
        let mut at = from;
        while at < to {
            let wanted = bytes.len().min((to - at) as usize);
            // A page may not be there.
            if memory.read_exact_at(&mut bytes[..wanted], at).is_ok() {
                found += bytes[..wanted]
                    .windows(MARKER.len())
                    .filter(|one| *one == MARKER)
                    .count();
            }
            at += wanted as u64;
        }
    }
    found
}

/// The watch of the wire finds what is not sealed.
fn check_watch(site: &Site) {
    let plain = format!(
        "printf %s '{}' > /dev/udp/{}/9",
        std::str::from_utf8(MARKER).expect("text"),
        site.link[1].address()
    );
    eventually("the watch finds a plain packet", || {
        let wire = Wire::watch(&site.r.space, MARKER);
        let moment = Duration::from_millis(100);
        let_time_pass(moment, "it may not watch yet: then once more");
        let sent = site.r.space.command("bash").args(["-c", &plain]).status();
        assert!(sent.expect("run").success());
        let_time_pass(moment, "the packet passes; else once more");
        wire.end().markers > 0
    });
}

fn agent_of(host: &Host) -> u32 {
    host.status().expect("an agent runs").pid
}

/// As a crash would end it.
fn kill(host: &Host) {
    let pid = agent_of(host).cast_signed();
    let pid = rustix::process::Pid::from_raw(pid).expect("a process");
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).expect("it runs");
    eventually("the agent has ended", || host.status().is_none());
}

/// A channel from one host to another.
struct Crossing<'a> {
    ends: [&'a Host; 2],
    publisher: Publisher,
    frames: Subscriber,
    /// Where they take part: for as long as they are used.
    _nodes: [Node; 2],
}

impl<'a> Crossing<'a> {
    fn new(from: &'a Host, to: &'a Host, channel: &str) -> Self {
        let nodes @ [here, there] = &[from.join(channel), to.join(channel)];
        let frames = there.subscriber(channel, &SubscriberOptions::default());
        let publisher = here.publisher(channel, &PublisherOptions::default());
        Self {
            ends: [from, to],
            publisher: publisher.expect("published"),
            frames: frames.expect("subscribed"),
            _nodes: nodes.clone(),
        }
    }

    fn wait(&mut self) {
        let reached = self.publisher.wait_for_subscribers(1, LONG);
        assert!(reached.expect("sound"), "the other host is no subscriber");
    }

    fn send(&mut self, bytes: &[u8]) -> Published {
        let mut lease = self.publisher.lease(bytes.len()).expect("a slot");
        lease.write(0, bytes);
        let published = self.publisher.publish(lease, bytes.len());
        published.expect("published")
    }

    fn expect(&mut self, sent: &[u8]) {
        let frame = self.frames.take(LONG).expect("sound");
        let frame = frame.unwrap_or_else(|| {
            panic!(
                "no message {:?}: {:?}",
                &sent[..4],
                self.ends.map(Host::status)
            )
        });
        assert!(
            frame.to_vec() == sent,
            "another payload of {} bytes",
            frame.len()
        );
    }

    /// What was sent while nobody forwards may be missed; what comes after arrives.
    fn goes_on(&mut self, payload: &[u8]) {
        eventually("a message after the router's restart", || {
            if self.publisher.subscribers().expect("sound") > 0 {
                self.send(payload);
            }
            let frame = self.frames.take(Duration::from_millis(500)).expect("sound");
            frame.is_some_and(|frame| frame.to_vec() == payload)
        });
    }
}

#[test]
fn channel_crosses_two_routers_sealed_and_outlives_one() {
    if is_skipped() {
        return;
    }
    let site = Site::new();
    let mut there = Crossing::new(&site.a, &site.b, "there");
    let mut back = Crossing::new(&site.b, &site.a, "back");
    site.wait_for_carrier("zenoh");
    for (host, other) in [(&site.a, "b"), (&site.b, "a")] {
        let (carrier, why) = carrier(host.status(), other).expect("a session");
        assert_eq!(carrier, "zenoh");
        assert!(why.starts_with("tls: "), "{why}");
        assert!(why.len() > "tls: ".len(), "it does not say why");
    }
    there.wait();
    back.wait();
    let payload: Vec<u8> = MARKER.iter().copied().cycle().take(PAYLOAD_BYTES).collect();
    check_watch(&site);
    let wire = Wire::watch(&site.r.space, MARKER);
    for round in 0..ROUNDS {
        // Each is another: what came twice would not be the next.
        let payload = [&round.to_le_bytes()[..], &payload].concat();
        for crossing in [&mut there, &mut back] {
            // What was sent before may not be acknowledged yet, and then holds all that it may.
            eventually("there is a slot for the other host", || {
                crossing.send(&payload).delivered == 1
            });
        }
        there.expect(&payload);
        back.expect(&payload);
    }
    let seen = wire.end();
    assert!(seen.bytes > ROUNDS * PAYLOAD_BYTES, "{seen:?}");
    assert_eq!(seen.markers, 0, "the payload is not sealed");
    let [sender, routers @ ..] = [&site.a, &site.r, &site.s].map(agent_of);
    assert!(
        markers_in(sender) > 0,
        "the search finds nothing where it must"
    );
    for router in routers {
        assert_eq!(markers_in(router), 0, "a router has the payload");
    }
    kill(&site.s);
    site.start_router(&site.s, 0);
    there.goes_on(&payload);
    back.goes_on(&payload);
}

/// Sends numbers until it is told to stop.
fn send_numbers(publisher: &mut Publisher, is_over: &AtomicBool) {
    let mut number = 0_u64;
    while !is_over.load(Ordering::Relaxed) {
        number += 1;
        let mut lease = publisher.lease(8).expect("a slot");
        lease.write(0, &number.to_le_bytes());
        publisher.publish(lease, 8).expect("published");
        let_time_pass(Duration::from_millis(2), "the pace of a publisher");
    }
}

/// Takes numbers until none come any more; says how many came. None comes twice, or too late.
fn take_numbers(frames: &mut Subscriber, is_over: &AtomicBool) -> u64 {
    let (mut last, mut came) = (0, 0);
    loop {
        let frame = frames.take(Duration::from_millis(500)).expect("sound");
        let Some(frame) = frame else {
            match is_over.load(Ordering::Relaxed) {
                true => return came,
                false => continue,
            }
        };
        let number = u64::from_le_bytes(frame.to_vec().try_into().expect("8 bytes"));
        assert!(number > last, "{number} after {last}");
        last = number;
        came += 1;
    }
}

#[test]
fn session_moves_to_tcp_when_there_is_a_way_and_back() {
    if is_skipped() {
        return;
    }
    let site = Site::new();
    let mut there = Crossing::new(&site.a, &site.b, "numbers");
    site.wait_for_carrier("zenoh");
    there.wait();
    let is_over = AtomicBool::new(false);
    let Crossing {
        publisher, frames, ..
    } = &mut there;
    let came = std::thread::scope(|scope| {
        let sending = scope.spawn(|| send_numbers(publisher, &is_over));
        let taking = scope.spawn(|| take_numbers(frames, &is_over));
        for (is_passing, carrier) in [(true, "tls"), (false, "zenoh"), (true, "tls")] {
            site.set_direct(is_passing);
            site.wait_for_carrier(carrier);
        }
        is_over.store(true, Ordering::Relaxed);
        sending.join().expect("it sent");
        taking.join().expect("it took")
    });
    // It says what is missing before it.
    there.goes_on(b"what comes after");
    let missed = there.frames.statistics().dropped;
    let losses = site.a.status_of("b").expect("known").losses;
    assert!(came > 0);
    assert!(
        missed > 0 || losses.unconfirmed == 0,
        "none is reported missing: {losses:?}"
    );
}

#[test]
fn tunnels_stay_while_tasks_use_them() {
    if is_skipped() {
        return;
    }
    let site = Site::new();
    site.wait_for_carrier("zenoh");
    let options = PoolOptions::new("default").root(&site.a.path("pools"));
    let pool = Pool::open_or_create(&options).expect("the agent's pool");
    let host = "b".parse().expect("a name");
    // As a machine of PVM does as long as it has tasks there.
    let watch = watch_host(&pool, &host).expect("connected");
    site.set_direct(true);
    let looks = Duration::from_secs(12);
    stays("both go by the tunnel", looks, || {
        let by = site.carriers();
        by.iter().all(|carrier| carrier.as_deref() == Some("zenoh"))
    });
    drop(watch);
    site.wait_for_carrier("tls");
}
