//! Requests and replies between two programs, on this host or another one (`hythe host`).
//!
//! `cargo run -p hythe --example request_reply -- serve POOL COUNT` answers `COUNT` requests in
//! capital letters, `… ask POOL TEXT` asks once. Never waits longer than ten seconds for anybody.

use std::error::Error;
use std::time::Duration;

use hythe::prelude::*;
use hythe::request::{ClientOptions, ServerOptions};

const TIMEOUT: Duration = Duration::from_secs(10);

fn serve(node: &Node, count: u32) -> Result<(), Box<dyn Error>> {
    let mut server = node.server("capitals", &ServerOptions::default())?;
    for _ in 0..count {
        let request = server.take(TIMEOUT)?.ok_or("nobody has asked")?;
        let answer = request.sample().to_vec().to_ascii_uppercase();
        let mut lease = server.lease(answer.len())?;
        lease.write(0, &answer);
        request.reply(lease, answer.len())?;
    }
    Ok(())
}

fn ask(node: &Node, text: &str) -> Result<(), Box<dyn Error>> {
    let options = ClientOptions::default().send_timeout(TIMEOUT);
    let mut client = node.client("capitals", &options)?;
    let mut lease = client.lease(text.len())?;
    lease.write(0, text.as_bytes());
    let pending = client.request(lease, text.len())?;
    let reply = client
        .wait(pending, TIMEOUT)?
        .ok_or("nobody has answered")?;
    println!("{}", String::from_utf8_lossy(&reply.to_vec()));
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [role, pool, argument] = &words[..] else {
        return Err("usage: request_reply serve POOL COUNT | ask POOL TEXT".into());
    };
    let pool = Pool::open_or_create(&PoolOptions::new(pool))?;
    let node = Node::join(&pool, role)?;
    match role.as_str() {
        "serve" => serve(&node, argument.parse()?),
        _ => ask(&node, argument),
    }
}
