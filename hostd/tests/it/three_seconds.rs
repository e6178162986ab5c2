//! A host that goes, in each way it can, is known to be gone on every other host within three
//! seconds with the default lease, what waits for it ends and names it, and three seconds after its
//! return it is back.
//!
//! On a machine that is busy with other things a process may not run for longer than that. So a
//! thread beside finds out for how long this machine kept somebody waiting who wanted to run at
//! once, and that is not the agents' fault: it is added to what they may take. A way that fails so
//! is tried again, and what was measured is said.

use std::thread::JoinHandle;
use std::time::Duration;

use crate::network::agent::{FAILURES, Host, LONG, are_together, assert_b_lost, three};
use crate::network::machine::{Machine, Moment, Took};
use crate::network::{Lan, is_skipped};
use hythe_node::{ClientOptions, Node, Request, Server, ServerOptions};
use hythe_testing::eventually;
use rustix::process::Signal;

/// What was promised.
const PROMISED: Duration = Duration::from_secs(3);
/// How often each way is tried.
const ATTEMPTS: usize = 3;

fn is_kept(took: Took) -> bool {
    took.time <= PROMISED + took.late
}

struct Three {
    hosts: [Host; 3],
    /// At b; its requests are taken, and not answered.
    server: Server,
    nodes: [Node; 3],
    lan: Lan,
    machine: Machine,
}

impl Three {
    fn new(number: u8) -> Self {
        let lan = Lan::new(number);
        let hosts = three(&lan);
        let nodes = hosts.each_ref().map(|host| host.join("local"));
        let server = nodes[1].server("sums", &ServerOptions::default());
        Self {
            server: server.expect("opened"),
            nodes,
            hosts,
            lan,
            machine: Machine::watch(),
        }
    }

    fn b(&self) -> &Host {
        &self.hosts[1]
    }

    /// Waits until it is so; says when it is.
    fn until(&self, what: &str, is_so: impl Fn() -> bool) -> Moment {
        eventually(what, is_so);
        self.machine.now()
    }

    /// A wait for host b at host a, and one at c: when each ends, in its error.
    fn wait_for_b(&mut self) -> ([JoinHandle<Moment>; 2], Vec<Request>) {
        let mut taken = Vec::new();
        let waits = [0, 2].map(|host| {
            let options = ClientOptions::default().send_timeout(LONG);
            let client = self.nodes[host].client("sums", &options);
            let mut client = client.expect("opened");
            assert!(client.wait_for_servers(1, LONG).expect("sound"));
            let lease = client.lease(1).expect("a slot");
            let asked = client.request(lease, 1).expect("asked");
            let request = self.server.take(LONG).expect("sound");
            taken.push(request.expect("it arrives"));
            let clock = self.machine.clock();
            std::thread::spawn(move || {
                assert_b_lost(client.wait(asked, LONG));
                clock.now()
            })
        });
        (waits, taken)
    }

    /// Host b goes by `cut` and comes back by `mend`, until that has once taken no longer than was
    /// promised.
    fn endure(&mut self, way: &str, cut: impl Fn(&Self), mend: impl Fn(&Self)) {
        let mut tried = Vec::new();
        for _ in 0..ATTEMPTS {
            self.until("all are connected", || are_together(&self.hosts));
            let (waits, taken) = self.wait_for_b();
            let before = self.machine.now();
            cut(self);
            let known = self.until("a and c know that b is gone", || {
                let [a, _, c] = &self.hosts;
                !a.is_connected_with("b") && !c.is_connected_with("b")
            });
            let mut took = vec![("known", before.until(known))];
            for wait in waits {
                let ended = wait.join().expect("it ends, and says for whom it waited");
                took.push(("wait ended", before.until(ended)));
            }
            drop(taken);
            let before = self.machine.now();
            mend(self);
            let back = self.until("b is back", || are_together(&self.hosts));
            took.push(("back", before.until(back)));
            eprintln!("{way}: {took:?}");
            if took.iter().all(|(_, took)| is_kept(*took)) {
                return;
            }
            tried.push(took);
        }
        panic!("{way}: never within {PROMISED:?} and what the machine was late: {tried:?}");
    }
}

#[test]
fn host_that_goes_is_known_in_three_seconds_and_back_in_three() {
    if is_skipped() {
        return;
    }
    let mut three = Three::new(27);
    three.endure(
        "killed",
        |three| three.b().signal(Signal::KILL),
        |three| drop(three.b().said(&["start"])),
    );
    for (way, fail) in FAILURES {
        three.endure(
            way,
            |three| fail(&three.lan, &three.hosts, false),
            |three| fail(&three.lan, &three.hosts, true),
        );
    }
}
