//! Ping-pong over Zenoh, with TLS or over plain TCP, by its defaults but for what a fast answer
//! needs: messages are not batched (`express`), and none is dropped.

use std::net::{IpAddr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::time::Duration;

use hdrhistogram::Histogram;
use serde_json::{Value, json};
use zenoh::qos::CongestionControl;
use zenoh::{Config, Session, Wait};

use crate::Failure;
use crate::exchange::{Budget, check, fill, round_trips};

const THERE: &str = "hythe-bench/there";
const BACK: &str = "hythe-bench/back";
const CERTIFICATE: &str = "zenoh.pem";
/// How long a message, and the other side at the beginning, are waited for.
const BOUND: Duration = Duration::from_secs(10);

/// What is below Zenoh.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transport {
    Tls,
    Tcp,
}

impl Transport {
    fn endpoint(self, address: SocketAddr) -> String {
        let protocol = match self {
            Self::Tls => "tls",
            Self::Tcp => "tcp",
        };
        format!("{protocol}/{address}")
    }
}

pub(crate) fn echo(transport: Transport, listen: IpAddr, folder: &Path) -> Result<(), Failure> {
    let made = rcgen::generate_simple_self_signed([listen.to_string()])?;
    let key = folder.join("zenoh.key");
    std::fs::write(folder.join(CERTIFICATE), made.cert.pem())?;
    std::fs::write(&key, made.signing_key.serialize_pem())?;
    // Nobody else is in this network: what is free now is free in a moment.
    let port = TcpListener::bind((listen, 0))?.local_addr()?.port();
    let endpoint = transport.endpoint(SocketAddr::new(listen, port));
    let session = open("listen/endpoints", &endpoint, folder, Some(key))?;
    let publisher = session
        .declare_publisher(BACK)
        .congestion_control(CongestionControl::Block)
        .express(true)
        .wait()?;
    let subscriber = session.declare_subscriber(THERE).wait()?;
    println!("{port}");
    let mut number = 0;
    let mut answer = Vec::new();
    while let Ok(sample) = subscriber.recv() {
        let payload = sample.payload().to_bytes();
        // Of the next run.
        if check(&payload, number).is_err() {
            number = 0;
            check(&payload, number)?;
        }
        answer.resize(payload.len(), 0);
        fill(&mut answer, number);
        publisher.put(answer.as_slice()).wait()?;
        number += 1;
    }
    Ok(())
}

pub(crate) fn ping(
    (transport, connect): (Transport, SocketAddr),
    size: usize,
    budget: Budget,
    folder: &Path,
) -> Result<Histogram<u64>, Failure> {
    let endpoint = transport.endpoint(connect);
    let session = open("connect/endpoints", &endpoint, folder, None)?;
    let publisher = session
        .declare_publisher(THERE)
        .congestion_control(CongestionControl::Block)
        .express(true)
        .wait()?;
    let subscriber = session.declare_subscriber(BACK).wait()?;
    wait_for_other(&publisher)?;
    let mut message = vec![0; size];
    round_trips(budget, |number| {
        fill(&mut message, number);
        publisher.put(message.as_slice()).wait()?;
        match subscriber.recv_timeout(BOUND)? {
            Some(sample) => check(&sample.payload().to_bytes(), number),
            None => Err(format!("no answer within {BOUND:?}").into()),
        }
    })
}

fn wait_for_other(publisher: &zenoh::pubsub::Publisher<'_>) -> Result<(), Failure> {
    let listener = publisher.matching_listener().wait()?;
    if publisher.matching_status().wait()?.matching() {
        return Ok(());
    }
    match listener.recv_timeout(BOUND)? {
        Some(status) if status.matching() => Ok(()),
        _ => Err(format!("the other side was not found within {BOUND:?}").into()),
    }
}

fn open(
    key: &str,
    endpoint: &str,
    folder: &Path,
    private_key: Option<PathBuf>,
) -> Result<Session, Failure> {
    let certificate = folder.join(CERTIFICATE);
    let mut tls = json!({
        "root_ca_certificate": certificate,
        "verify_name_on_connect": false,
    });
    if let (Some(private_key), Value::Object(tls)) = (private_key, &mut tls) {
        tls.insert("listen_private_key".to_owned(), json!(private_key));
        tls.insert("listen_certificate".to_owned(), json!(certificate));
    }
    let mut config = Config::default();
    for (key, value) in [
        ("mode", json!("peer")),
        (key, json!([endpoint])),
        ("scouting/multicast/enabled", json!(false)),
        ("transport/link/tls", tls),
    ] {
        config.insert_json5(key, &value.to_string())?;
    }
    zenoh::open(config).wait()
}
