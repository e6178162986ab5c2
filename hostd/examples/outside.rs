//! A Zenoh program that knows nothing of Hythe: `outside ENDPOINT KEY`.
//!
//! It connects to ENDPOINT (`tcp/127.0.0.1:7452`), prints each message of others on KEY, which may
//! have wildcards, as `KEY TEXT`, and puts each line `KEY TEXT` of its input. A line `KEY *COUNT`
//! puts that many bytes. It ends with its input.

use std::io::{BufRead as _, Write as _, stdin, stdout};

use zenoh::qos::CongestionControl;
use zenoh::sample::Locality;
use zenoh::{Config, Wait as _};

type Failure = Box<dyn std::error::Error + Send + Sync>;

fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1);
    let usage = "outside ENDPOINT KEY";
    let endpoint = arguments.next().ok_or(usage)?;
    let key = arguments.next().ok_or(usage)?;
    let mut config = Config::default();
    config.insert_json5("mode", "\"client\"")?;
    config.insert_json5("connect/endpoints", &format!("[\"{endpoint}\"]"))?;
    config.insert_json5("scouting/multicast/enabled", "false")?;
    let session = zenoh::open(config).wait()?;
    let subscriber = session.declare_subscriber(key);
    let _subscriber = subscriber
        .allowed_origin(Locality::Remote)
        .callback(|sample| {
            let payload = sample.payload().to_bytes();
            let text = String::from_utf8_lossy(&payload);
            say(&format!("{} {text}", sample.key_expr()));
        })
        .wait()?;
    say("ready");
    for line in stdin().lock().lines() {
        let line = line?;
        let (key, text) = line.split_once(' ').ok_or("a line is KEY TEXT")?;
        let payload = match text.strip_prefix('*') {
            Some(count) => vec![0; count.parse()?],
            None => text.as_bytes().to_vec(),
        };
        let put = session.put(key, payload);
        put.congestion_control(CongestionControl::Block).wait()?;
    }
    session.close().wait()
}

/// A line at once: whoever reads it waits for it.
fn say(line: &str) {
    let mut out = stdout().lock();
    // Nobody reads any more: the input ends, too.
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}
