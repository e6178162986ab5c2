//! A process is killed, and a process on another host waits for it.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::Stdio;

use crate::network::agent::{LONG, assert_b_lost, eventually, pair};
use crate::network::{Lan, is_skipped};
use hythe_node::{ClientOptions, Node, Pool, PoolOptions, ServerOptions};
use hythe_testing::await_kill;

const ROOT: &str = "HYTHE_TEST_ROOT";

/// A server that takes a request and keeps it, if this process is one.
#[test]
fn plays_its_role() {
    let Ok(root) = std::env::var(ROOT) else {
        return;
    };
    let pool = Pool::open(&PoolOptions::new("default").root(Path::new(&root)));
    let node = Node::join(&pool.expect("the agent's"), "serving").expect("joins");
    let mut server = node
        .server("sums", &ServerOptions::default())
        .expect("opened");
    let request = server.take(LONG).expect("sound").expect("asked");
    println!("role: {}", request.sample().to_vec()[0]);
    await_kill();
}

#[test]
fn killed_remote_server_ends_wait_for_reply() {
    if is_skipped() {
        return;
    }
    let lan = Lan::new(1);
    let [a, b] = pair(&lan);
    let here = a.join("asking");
    let options = ClientOptions::default().send_timeout(LONG);
    let mut client = here.client("sums", &options).expect("opened");
    let own = std::env::current_exe().expect("own program");
    // A second one finds everything as the first did.
    for round in [7, 8] {
        let mut server = b.space.command(own.to_str().expect("text"));
        server.args([
            "--exact",
            &hythe_testing::in_module("plays_its_role"),
            "--nocapture",
        ]);
        server.env(ROOT, b.path("pools")).stdout(Stdio::piped());
        let mut server = server.spawn().expect("nsenter");
        let mut lines = BufReader::new(server.stdout.take().expect("piped")).lines();
        assert!(client.wait_for_servers(1, LONG).expect("sound"));
        let mut lease = client.lease(1).expect("a slot");
        lease.write(0, &[round]);
        let pending = client.request(lease, 1).expect("asked");
        let taken = format!("role: {round}");
        let is_taken = |line: std::io::Result<String>| line.expect("text").ends_with(&taken);
        assert!(lines.any(is_taken), "the server has it");
        server.kill().expect("it lives");
        server.wait().expect("its end");
        assert_b_lost(client.wait(pending, LONG));
        eventually("no server is left", || {
            client.servers().is_ok_and(|servers| servers == 0)
        });
    }
    for host in [&a, &b] {
        let pool = host.join("looking").pool().clone();
        eventually("all is given back", || {
            let audit = pool.snapshot().audit;
            audit.free == audit.slots && audit.mismatches.is_empty()
        });
    }
}
