//! Clients on one host, servers on another: replies and their ends, whoever goes.

use crate::support;

use std::time::{Duration, Instant};

use crate::support::host::{TestHost, pair};
use crate::support::{BOUND, eventually};
use hythe_node::rpc::{Call, Caller};
use hythe_node::{
    Client, ClientOptions, Node, NodeError, PortKind, Server, ServerLoss, ServerOptions,
};

const BRIEFLY: Duration = Duration::from_millis(20);

fn client(node: &Node, channel: &str) -> Client {
    let options = ClientOptions::default().send_timeout(BOUND);
    node.client(channel, &options).expect("opened")
}

fn server(node: &Node, channel: &str) -> Server {
    node.server(channel, &ServerOptions::default())
        .expect("opened")
}

fn ask(client: &mut Client, payload: &[u8]) -> hythe_node::PendingReply {
    let mut lease = client.lease(payload.len()).expect("a slot");
    lease.write(0, payload);
    client.request(lease, payload.len()).expect("asked")
}

fn wait(client: &mut Client, pending: hythe_node::PendingReply) -> Vec<u8> {
    let reply = client.wait(pending, BOUND).expect("answered");
    reply.expect("in time").to_vec()
}

fn next(server: &mut Server) -> hythe_node::Request {
    server.take(BOUND).expect("sound").expect("in time")
}

/// Replies with the bytes of the request, each one more.
fn answer(server: &mut Server) {
    let request = next(server);
    let mut payload = request.sample().to_vec();
    payload
        .iter_mut()
        .for_each(|byte| *byte = byte.wrapping_add(1));
    let mut lease = server.lease(payload.len()).expect("a slot");
    lease.write(0, &payload);
    assert!(request.reply(lease, payload.len()).expect("sound"));
}

/// Everything of the test is gone, and both agents, too: so are all holds.
fn end(hosts: [TestHost; 2]) {
    for host in &hosts {
        eventually("all is given back", || {
            let audit = host.pool.snapshot().audit;
            audit.free == audit.slots && audit.mismatches.is_empty()
        });
    }
    for mut host in hosts {
        host.agent = None;
        host.assert_settled(0);
    }
}

fn is_lost_with_host(outcome: Result<Option<hythe_node::Sample>, NodeError>, host: &str) {
    match outcome {
        Err(NodeError::ServerLost { server, reason, .. }) => {
            assert!(
                server.starts_with(&format!("host {host} (pid ")),
                "{server}"
            );
            assert_eq!(reason, ServerLoss::Went);
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn request_crosses_and_its_reply_comes_back() {
    let (a, b) = pair();
    let (asking, serving) = (a.join("asking"), b.join("serving"));
    let mut client = client(&asking, "sums");
    let mut server = server(&serving, "sums");
    for size in [0, 1, 4096, 300_000] {
        for round in 0..10_u8 {
            let pending = ask(&mut client, &vec![round; size]);
            answer(&mut server);
            assert!(
                wait(&mut client, pending) == vec![round + 1; size],
                "{size}"
            );
        }
    }
    drop((client, server, asking, serving));
    end([a, b]);
}

#[test]
fn replies_are_matched_whatever_their_order_and_clients() {
    let (a, b) = pair();
    let (asking, serving) = (a.join("asking"), b.join("serving"));
    let mut clients = [client(&asking, "sums"), client(&asking, "sums")];
    let mut server = server(&serving, "sums");
    let mut asked = Vec::new();
    for round in 0..8_u8 {
        for (which, client) in clients.iter_mut().enumerate() {
            asked.push((which, round, ask(client, &[which as u8, round])));
        }
    }
    let mut taken: Vec<_> = (0..16).map(|_| next(&mut server)).collect();
    while let Some(request) = taken.pop() {
        // In the very buffer it came in.
        assert!(request.reply_in_kind().expect("alone with it"));
    }
    for (which, round, pending) in asked {
        let reply = wait(&mut clients[which], pending);
        assert_eq!(reply, [which as u8, round]);
    }
    drop((clients, server, asking, serving));
    end([a, b]);
}

#[test]
fn requests_go_both_ways_and_to_local_servers_as_well() {
    let (a, b) = pair();
    let nodes = [a.join("here"), b.join("there")];
    let mut servers = nodes.each_ref().map(|node| server(node, "sums"));
    let mut clients = nodes.each_ref().map(|node| client(node, "sums"));
    for client in &mut clients {
        assert!(client.wait_for_servers(2, BOUND).expect("sound"));
    }
    for round in 0..10_u8 {
        for client in &mut clients {
            // To each of the two in turn.
            let asked = [ask(client, &[round]), ask(client, &[round + 100])];
            let start = Instant::now();
            let mut answered = [0; 2];
            while answered.iter().sum::<u32>() < 2 {
                assert!(start.elapsed() < BOUND, "answered: {answered:?}");
                for (server, count) in servers.iter_mut().zip(&mut answered) {
                    if let Some(request) = server.take(BRIEFLY).expect("sound") {
                        assert!(request.reply_in_kind().expect("alone with it"));
                        *count += 1;
                    }
                }
            }
            assert_eq!(answered, [1, 1], "one here, one there");
            assert_eq!(wait(client, asked[0]), [round]);
            assert_eq!(wait(client, asked[1]), [round + 100]);
        }
    }
    drop((servers, clients, nodes));
    end([a, b]);
}

#[test]
fn what_is_not_answered_says_so() {
    let (a, b) = pair();
    let (asking, serving) = (a.join("asking"), b.join("serving"));
    let mut client = client(&asking, "sums");
    let mut server = server(&serving, "sums");
    let dropped = ask(&mut client, b"dropped");
    drop(next(&mut server));
    match client.wait(dropped, BOUND) {
        Err(NodeError::Unanswered { server, .. }) => {
            assert!(server.starts_with("host b (pid "), "{server}");
        }
        other => panic!("{other:?}"),
    }

    // Abandoned here, answered there: the reply is passed over, and the next request is sound.
    let lease = client.lease(4).expect("a slot");
    let late = client.call(lease, 4, BRIEFLY);
    assert!(matches!(late, Err(NodeError::NoReply { .. })), "{late:?}");
    let request = next(&mut server);
    assert!(request.reply_in_kind().expect("alone with it"));
    let pending = ask(&mut client, b"0");
    answer(&mut server);
    assert_eq!(wait(&mut client, pending), b"1");
    drop((client, server, asking, serving));
    end([a, b]);
}

#[test]
fn server_that_goes_loses_what_it_has_not_answered_and_no_more() {
    let (a, b) = pair();
    let (asking, serving) = (a.join("asking"), b.join("serving"));
    let mut client = client(&asking, "sums");
    for _ in 0..3 {
        let mut server = server(&serving, "sums");
        let answered = ask(&mut client, b"0");
        let kept = ask(&mut client, b"kept");
        let waiting = ask(&mut client, b"waiting");
        answer(&mut server);
        let request = next(&mut server);
        // It closes with one taken and one in its queue.
        drop(server);
        drop(request);
        assert_eq!(wait(&mut client, answered), b"1");
        for pending in [kept, waiting] {
            is_lost_with_host(client.wait(pending, BOUND), "b");
        }
        // What is asked until then is lost, too.
        eventually("host a knows that the server has gone", || {
            let mut ports = a.pool.ports().into_iter();
            ports.all(|port| port.kind != PortKind::Server)
        });
    }
    assert_eq!(client.statistics().violations, 0);
    drop((client, asking, serving));
    end([a, b]);
}

#[test]
fn host_that_goes_ends_what_it_has_and_comes_back() {
    let (a, mut b) = pair();
    let asking = a.join("asking");
    let mut client = client(&asking, "sums");
    let serving = b.join("serving");
    let mut server = server(&serving, "sums");
    let pending = ask(&mut client, b"0");
    answer(&mut server);
    assert_eq!(wait(&mut client, pending), b"1");
    let pending = ask(&mut client, b"lost");
    let request = next(&mut server);
    b.agent = None;
    is_lost_with_host(client.wait(pending, BOUND), "b");
    // Its client, the agent, is gone.
    assert!(!request.reply_in_kind().expect("sound"));

    b.start(support::host::ALL, support::host::LEASE);
    b.meet(&a);
    let pending = ask(&mut client, b"3");
    answer(&mut server);
    assert_eq!(wait(&mut client, pending), b"4");
    drop((client, server, asking, serving));
    end([a, b]);
}

#[test]
fn connections_that_break_lose_no_request_and_no_reply() {
    let (a, b) = pair();
    let (asking, serving) = (a.join("asking"), b.join("serving"));
    let options = ClientOptions::default().outstanding(8).send_timeout(BOUND);
    let mut client = asking.client("sums", &options).expect("opened");
    let mut server = server(&serving, "sums");
    let pending = ask(&mut client, &[0]);
    answer(&mut server);
    assert_eq!(wait(&mut client, pending), [1]);
    let answering = std::thread::spawn(move || {
        for _ in 0..200 {
            answer(&mut server);
        }
        server
    });
    for round in 0..50_u8 {
        let asked: Vec<_> = (0..4)
            .map(|number| ask(&mut client, &[round, number]))
            .collect();
        if round % 10 == 5 {
            // All but that of the session.
            a.carrier.break_but(1);
            b.carrier.break_but(1);
        }
        for (number, pending) in (0..).zip(asked) {
            assert_eq!(wait(&mut client, pending), [round + 1, number + 1]);
        }
    }
    let server = answering.join().expect("no panic");
    drop((client, server, asking, serving));
    end([a, b]);
}

/// What servers cannot take waits where it came from: neither host keeps more than a window.
#[test]
fn server_that_stands_still_holds_up_its_channel_and_no_other() {
    let (a, b) = pair();
    let (asking, serving) = (a.join("asking"), b.join("serving"));
    let options = ServerOptions::default().depth(2);
    let mut still = serving.server("still", &options).expect("opened");
    let mut lively = server(&serving, "lively");
    let options = ClientOptions::default()
        .outstanding(512)
        .send_timeout(BRIEFLY);
    let mut flooding = asking.client("still", &options).expect("opened");
    assert!(flooding.wait_for_servers(1, BOUND).expect("sound"));
    let mut asked = Vec::new();
    let full = loop {
        let lease = flooding.lease(8).expect("a slot");
        match flooding.request(lease, 8) {
            Ok(pending) => asked.push(pending),
            Err(error) => break error,
        }
        assert!(asked.len() < 512, "all were taken");
    };
    assert!(
        matches!(full, NodeError::ServersFull { .. }),
        "{full:?} after {}",
        asked.len()
    );
    let mut client = client(&asking, "lively");
    let pending = ask(&mut client, b"0");
    answer(&mut lively);
    assert_eq!(wait(&mut client, pending), b"1");
    for pending in asked {
        assert!(next(&mut still).reply_in_kind().expect("alone with it"));
        wait(&mut flooding, pending);
    }
    drop((client, flooding, still, lively, asking, serving));
    end([a, b]);
}

#[test]
fn typed_channel_of_another_type_is_not_asked() {
    let (a, b) = pair();
    let (asking, serving) = (a.join("asking"), b.join("serving"));
    let typed = |name: &str| hythe_node::ChannelType {
        name: name.to_owned(),
        bytes: 8,
        align: 8,
        version: 1,
    };
    let options = ServerOptions::default().carries(typed("q->a@1:8/8"));
    let mut server = serving.server("sums", &options).expect("opened");
    let options = ClientOptions::default()
        .carries(typed("q->b@1:8/8"))
        .send_timeout(BRIEFLY);
    let mut client = asking.client("sums", &options).expect("opened");
    eventually("the refusal is shown", || {
        let session = b.status_of("a").and_then(|status| status.session);
        let channels = session.expect("connected").channels;
        channels.iter().any(|channel| {
            channel.reason.contains("q->a@1:8/8") && channel.reason.contains("q->b@1:8/8")
        })
    });
    let lease = client.lease(8).expect("a slot");
    let refused = client.request(lease, 8);
    assert!(
        matches!(refused, Err(NodeError::NoServer { .. })),
        "{refused:?}"
    );
    assert!(server.try_take().expect("sound").is_none());
    drop((client, server, asking, serving));
    end([a, b]);
}

#[test]
fn calls_and_typed_requests_cross_as_they_are() {
    let (a, b) = pair();
    let (asking, serving) = (a.join("asking"), b.join("serving"));
    let mut methods = server(&serving, "methods");
    let mut client = client(&asking, "methods");
    let mut caller = Caller::new(&mut client);
    for round in 0..5_u8 {
        let pending = caller.begin(7, &[round; 100], BOUND).expect("begun");
        let call = Call::take(&mut methods, BOUND)
            .expect("sound")
            .expect("called");
        assert_eq!(call.method(), 7);
        let argument = call.argument().to_vec();
        assert!(call.reply(&argument[..10]).expect("sound"));
        let result = caller.wait(pending, BOUND).expect("answered");
        assert_eq!(result.expect("over").to_vec(), [round; 10]);
    }
    let pending = caller.begin(8, b"", BOUND).expect("begun");
    let call = Call::take(&mut methods, BOUND).expect("sound");
    assert!(call.expect("called").refuse_method().expect("sound"));
    let refused = caller.wait(pending, BOUND);
    assert!(refused.is_err(), "{refused:?}");

    let options = ServerOptions::default();
    let mut server = serving
        .typed_server::<u64, u32>("double", &options)
        .expect("opened");
    let options = ClientOptions::default().send_timeout(BOUND);
    let mut typed = asking
        .typed_client::<u64, u32>("double", &options)
        .expect("opened");
    let pending = typed.request(&21).expect("asked");
    let request = server.take(BOUND).expect("sound").expect("in time");
    let twice = request.question.read() as u32 * 2;
    assert!(request.reply(&twice).expect("sound"));
    let answer = typed.wait(pending, BOUND).expect("answered");
    assert_eq!(answer.expect("in time").read(), 42);
    drop((typed, server, client, methods, asking, serving));
    end([a, b]);
}
