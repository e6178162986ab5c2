//! Trouble between three hosts with the agent as it is shipped: one goes, in each way that a host
//! can, and comes back; the other two know it, and lose nothing between themselves.

use std::time::{Duration, Instant};

use crate::network::agent::{
    FAILURES, Host, LONG, are_together, assert_b_lost, eventually, send, three,
};
use crate::network::{Lan, Plug, is_skipped};
use hythe_node::{
    Client, ClientOptions, Node, PendingReply, Publisher, PublisherOptions, Server, ServerOptions,
    Subscriber, SubscriberOptions,
};
use hythe_testing::let_time_pass;
use rustix::process::Signal;

/// A channel from a to b and c, and requests of a that b has.
struct Three {
    hosts: [Host; 3],
    publisher: Publisher,
    at_b: Subscriber,
    at_c: Subscriber,
    client: Client,
    server: Server,
    nodes: [Node; 3],
    next: u32,
    last: [u32; 2],
    lan: Lan,
}

impl Three {
    fn new(number: u8) -> Self {
        let lan = Lan::new(number);
        let hosts = three(&lan);
        let nodes = hosts.each_ref().map(|host| host.join("local"));
        let [a, b, c] = &nodes;
        let subscribe = |node: &Node| {
            let options = SubscriberOptions::default();
            node.subscriber("numbers", &options).expect("subscribed")
        };
        let publisher = a.publisher("numbers", &PublisherOptions::default());
        let client = a.client("sums", &ClientOptions::default().send_timeout(LONG));
        let server = b.server("sums", &ServerOptions::default());
        let mut three = Self {
            publisher: publisher.expect("published"),
            at_b: subscribe(b),
            at_c: subscribe(c),
            client: client.expect("opened"),
            server: server.expect("opened"),
            hosts,
            nodes,
            next: 1,
            last: [0; 2],
            lan,
        };
        three.reach_all();
        three
    }

    /// Sends a number, and takes what has come: in order, and nothing twice.
    fn step(&mut self) {
        let mut lease = self.publisher.lease(4).expect("a slot");
        lease.write(0, &self.next.to_le_bytes());
        self.publisher.publish(lease, 4).expect("published");
        self.next += 1;
        let_time_pass(Duration::from_millis(10), "the pace of a publisher");
        for (subscriber, last) in [&mut self.at_b, &mut self.at_c]
            .into_iter()
            .zip(&mut self.last)
        {
            while let Some(sample) = subscriber.try_take().expect("sound") {
                let mut bytes = [0; 4];
                sample.read(0, &mut bytes);
                let number = u32::from_le_bytes(bytes);
                assert!(number > *last, "{number} behind {last}");
                *last = number;
            }
        }
    }

    /// Sends until so much has come of it.
    fn step_until(&mut self, what: &str, is_so: impl Fn(&Self) -> bool) -> Duration {
        let since = Instant::now();
        while !is_so(self) {
            assert!(since.elapsed() < LONG, "not within {LONG:?}: {what}");
            self.step();
        }
        since.elapsed()
    }

    /// What is sent from now on reaches both.
    fn reach_all(&mut self) {
        let first = self.next;
        self.step_until("numbers reach both", |three| {
            three.last.iter().all(|last| *last >= first)
        });
    }

    fn ask(&mut self) -> PendingReply {
        let waited = self.client.wait_for_servers(1, LONG);
        assert!(waited.expect("sound"), "no server");
        let lease = self.client.lease(1).expect("a slot");
        self.client.request(lease, 1).expect("asked")
    }

    /// Host b goes by `cut` and comes back by `mend`.
    fn endure(&mut self, what: &str, cut: impl FnOnce(&mut Self), mend: impl FnOnce(&mut Self)) {
        self.reach_all();
        let asked = self.ask();
        let request = self.server.take(LONG).expect("sound");
        let request = request.expect("it arrives");
        let since = Instant::now();
        cut(self);
        self.step_until("a and c know that b is gone", |three| {
            let [a, _, c] = &three.hosts;
            !a.is_connected_with("b") && !c.is_connected_with("b")
        });
        let known = since.elapsed();
        // What waits for it ends, and says for whom it waited.
        assert_b_lost(self.client.wait(asked, LONG));
        drop(request);
        let [a, _, c] = &self.nodes;
        for pool in [a.pool(), c.pool()] {
            eventually("nothing is held for b, and all adds up", || {
                let seen = pool.snapshot();
                let mut members = seen.members.iter();
                seen.audit.mismatches.is_empty() && !members.any(|one| one.name == "host b")
            });
        }
        // The third goes on.
        let first = self.next;
        self.step_until("numbers reach c", |three| three.last[1] >= first);
        let since = Instant::now();
        mend(self);
        self.step_until("b is back", |three| are_together(&three.hosts));
        let back = since.elapsed();
        self.reach_all();
        eprintln!("{what}: known after {known:?}, back after {back:?}");
    }

    fn b(&self) -> &Host {
        &self.hosts[1]
    }
}

#[test]
fn agent_that_is_killed_is_gone_at_once() {
    if is_skipped() {
        return;
    }
    let mut three = Three::new(21);
    let [a, _, c] = &three.hosts;
    // That of the others counts: a killed one is known by its sockets, not by silence.
    for host in [a, c] {
        host.stop();
        host.said(&["start", "--lease", "120"]);
    }
    three.step_until("all are connected", |three| are_together(&three.hosts));
    three.reach_all();
    let session = |three: &Three| {
        let status = three.hosts[0].status_of("c").expect("known");
        status.session.expect("connected").number
    };
    let before = session(&three);
    let lost = three.at_c.statistics().dropped;
    three.endure(
        "killed",
        |three| three.b().signal(Signal::KILL),
        |three| drop(three.b().said(&["start"])),
    );
    assert_eq!(session(&three), before, "a and c have lost their session");
    assert_eq!(three.at_c.statistics().dropped, lost, "c has lost messages");
}

#[test]
fn network_that_fails_in_any_way_is_known_and_so_is_its_return() {
    if is_skipped() {
        return;
    }
    let mut three = Three::new(22);
    let b = three.b().plug;
    three.endure(
        "cable pulled",
        |three| three.lan.set_link(b, false),
        |three| three.lan.set_link(b, true),
    );
    for (way, fail) in FAILURES {
        three.endure(
            way,
            |three| fail(&three.lan, &three.hosts, false),
            |three| fail(&three.lan, &three.hosts, true),
        );
    }
}

#[test]
fn agent_that_stood_still_for_longer_than_its_lease_rejoins() {
    if is_skipped() {
        return;
    }
    let mut three = Three::new(23);
    let pid = three.b().status().expect("it runs").pid;
    three.endure(
        "stood still",
        |_| send(pid, Signal::STOP),
        |_| send(pid, Signal::CONT),
    );
}

#[test]
fn host_that_is_switched_off_and_on_again_comes_back() {
    if is_skipped() {
        return;
    }
    let mut three = Three::new(24);
    three.endure(
        "rebooted",
        |three| {
            // Without a word on the wire.
            three.lan.set_passing(three.b().plug, false);
            three.b().signal(Signal::KILL);
            three.lan.unplug(three.b().plug);
        },
        |three| {
            let (space, plug) = three.lan.host(2);
            three.hosts[1].space = space;
            three.hosts[1].plug = plug;
            three.b().said(&["start"]);
        },
    );
}

#[test]
fn host_whose_address_changes_is_found_at_the_new_one() {
    if is_skipped() {
        return;
    }
    let mut three = Three::new(25);
    let interface = three.b().plug.interface();
    let old = three.b().plug.address();
    let changed = interface.clone();
    three.endure(
        "address changed",
        |three| {
            let space = &three.b().space;
            space.run(&format!("ip addr flush dev {changed}"));
        },
        |three| {
            let space = &three.b().space;
            space.run(&format!("ip addr add 10.77.25.77/24 dev {interface}"));
            let _ = space
                .command("ip")
                .args(["route", "add", "224.0.0.0/4", "dev", &interface])
                .status();
        },
    );
    let [a, ..] = &three.hosts;
    let session = a.status_of("b").expect("known").session.expect("connected");
    assert!(!session.connection.address.starts_with(&format!("{old}:")));
}

#[test]
fn packets_that_become_shorter_lose_nobody_for_good() {
    if is_skipped() {
        return;
    }
    let mut three = Three::new(26);
    let [a, b, c] = three.hosts.each_ref().map(|host| host.plug);
    let set = |three: &Three, plug: Plug, at: usize, bytes| {
        three.lan.set_mtu(&three.hosts[at].space, plug, bytes);
    };
    for bytes in [1280, 1500, 9000, 1500] {
        match bytes {
            9000 => [a, b, c]
                .iter()
                .enumerate()
                .for_each(|(at, plug)| set(&three, *plug, at, bytes)),
            _ => set(&three, b, 1, bytes),
        }
        three.reach_all();
        let sent = vec![7; 300_000];
        for _ in 0..4 {
            let mut lease = three.client.lease(sent.len()).expect("a slot");
            lease.write(0, &sent);
            let asked = three.client.request(lease, sent.len()).expect("asked");
            let since = Instant::now();
            // One that is lost with its host is asked again.
            loop {
                if let Some(request) = three.server.take(Duration::from_millis(20)).expect("sound")
                {
                    assert_eq!(request.sample().to_vec(), sent);
                    let _ = request.reply_in_kind();
                }
                match three.client.wait(asked, Duration::from_millis(20)) {
                    Ok(Some(reply)) => {
                        assert_eq!(reply.to_vec(), sent);
                        break;
                    }
                    Ok(None) => assert!(since.elapsed() < LONG, "MTU {bytes}: no reply"),
                    Err(error) => {
                        eprintln!("MTU {bytes}: {error}");
                        break;
                    }
                }
            }
        }
        three.reach_all();
    }
}
