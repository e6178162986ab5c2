//! Requests and replies: between nodes, between processes, and what a client hears when a server
//! goes.
//!
//! The other process is this test program again (`support::player`).

use std::time::{Duration, Instant};

use crate::support::player::{Player, own_part, say, until_told};
use crate::support::{BOUND, Root, eventually};
use hythe_memory::{Memory, Ordering};
use hythe_node::hop::HopPool as _;
use hythe_node::{
    Client, ClientOptions, Node, NodeError, Pool, PublisherOptions, Sample, Server, ServerLoss,
    ServerOptions, SubscriberOptions,
};
use hythe_testing::{WatchedThread, let_time_pass};

/// What a child can be.
mod roles {
    /// Answers each request with its own buffer, for ever.
    pub(super) const ECHO: &str = "echo";
    /// Takes one request, answers it, takes another and keeps it.
    pub(super) const KEEPER: &str = "keeper";
    /// Asks three times and waits for nothing.
    pub(super) const ASKER: &str = "asker";
}

/// Not a test of its own: the other process of the tests below.
#[test]
fn plays_its_role() {
    let Some((role, node)) = own_part() else {
        return;
    };
    match role.as_str() {
        roles::ECHO => {
            let mut server = server(&node);
            say("ready");
            let start = Instant::now();
            while start.elapsed() < BOUND {
                if let Some(request) = server.take(Duration::from_millis(100)).expect("sound") {
                    request.reply_in_kind().expect("alone with it");
                }
            }
        }
        roles::KEEPER => {
            let mut server = server(&node);
            say("ready");
            let first = server.take(BOUND).expect("sound").expect("asked");
            assert!(first.reply_in_kind().expect("alone with it"));
            let _kept = server.take(BOUND).expect("sound").expect("asked again");
            say("keeps one");
            until_told();
        }
        roles::ASKER => {
            let mut client = client(&node);
            for byte in 0..3 {
                ask(&mut client, byte);
            }
            say("asked");
            until_told();
        }
        other => panic!("no role {other}"),
    }
}

fn server(node: &Node) -> Server {
    node.server("sums", &ServerOptions::default())
        .expect("opens")
}

fn client(node: &Node) -> Client {
    node.client("sums", &ClientOptions::default().send_timeout(BOUND))
        .expect("opens")
}

fn ask(client: &mut Client, byte: u8) -> hythe_node::PendingReply {
    let mut lease = client.lease(1).expect("free");
    lease.write(0, &[byte]);
    client.request(lease, 1).expect("a server with room")
}

fn two_nodes(pool: &Pool) -> (Node, Node) {
    (
        Node::join(pool, "asking").expect("joins"),
        Node::join(pool, "serving").expect("joins"),
    )
}

/// Nothing is held or queued, and the ledger adds up.
fn is_all_free(pool: &Pool) -> bool {
    let audit = pool.snapshot().audit;
    assert_eq!(audit.mismatches, [], "the ledger does not add up");
    audit.free == audit.slots
}

#[test]
fn reply_goes_to_who_asked_and_both_travel_uncopied() {
    let root = Root::new();
    let pool = root.pool();
    let (asking, serving) = two_nodes(&pool);
    let mut server = server(&serving);
    let (mut first, mut second) = (client(&asking), client(&asking));
    let asked = [ask(&mut first, 1), ask(&mut second, 2), ask(&mut first, 3)];
    let mut places = Vec::new();
    for _ in 0..3 {
        let request = server.take(BOUND).expect("sound").expect("asked");
        places.push((
            request.sample().to_vec()[0],
            request.sample().descriptor().place,
        ));
        assert!(request.reply_in_kind().expect("alone with it"));
    }
    // The later of the two first.
    for (who, index, byte) in [(0, 2, 3), (1, 1, 2), (0, 0, 1)] {
        let client = if who == 0 { &mut first } else { &mut second };
        let pending = asked[index];
        let reply = client.wait(pending, BOUND).expect("sound").expect("came");
        assert_eq!(reply.to_vec(), [byte]);
        let place = (byte, reply.descriptor().place);
        assert!(places.contains(&place), "it was copied");
    }
    assert_eq!(first.open_requests() + second.open_requests(), 0);
    assert_eq!(first.statistics().messages, 2);
    assert_eq!(server.statistics().messages, 3);
    drop((first, second, server, asking, serving));
    assert!(is_all_free(&pool));
    let left = pool.snapshot();
    assert_eq!((left.channels.len(), left.connections.len()), (0, 0));
}

#[test]
fn reply_may_be_a_lease_a_part_or_another_sample() {
    let root = Root::new();
    let pool = root.pool();
    let (asking, serving) = two_nodes(&pool);
    let (mut server, mut client) = (server(&serving), client(&asking));
    let wait = |client: &mut Client, pending| -> Sample {
        client.wait(pending, BOUND).expect("sound").expect("came")
    };
    let mut lease = client.lease(4).expect("free");
    lease.write(0, b"abcd");
    let pending = client.request(lease, 4).expect("sent");
    let (sample, responder) = server
        .take(BOUND)
        .expect("sound")
        .expect("asked")
        .into_parts();
    let part = sample.part(1, 2).expect("inside");
    drop(sample);
    assert!(responder.forward(part).expect("alone with it"));
    assert_eq!(wait(&mut client, pending).to_vec(), b"bc");

    let pending = ask(&mut client, 0);
    let mut lease = server.lease(9).expect("free");
    lease.write(0, b"in a lease");
    let request = server.take(BOUND).expect("sound").expect("asked");
    // From another thread, as a pool of workers would.
    let replied = std::thread::spawn(move || request.reply(lease, 10));
    assert!(replied.join().expect("ends").expect("sent"));
    assert_eq!(wait(&mut client, pending).to_vec(), b"in a lease");
    drop((client, server));
    assert!(is_all_free(&pool));
}

#[test]
fn buffer_that_others_hold_is_refused_both_ways() {
    let root = Root::new();
    let pool = root.pool();
    let (asking, serving) = two_nodes(&pool);
    let (mut server, mut client) = (server(&serving), client(&asking));
    let options = SubscriberOptions::default();
    let mut readers = [(); 2].map(|()| asking.subscriber("data", &options).expect("opens"));
    let mut publisher = asking
        .publisher("data", &PublisherOptions::default())
        .expect("opens");
    publisher
        .publish(publisher.lease(1).expect("free"), 1)
        .expect("room");
    let sample = readers[0].try_take().expect("sound").expect("published");
    let refused = client.forward(sample).expect_err("another reader has it");
    assert!(
        matches!(refused, NodeError::SharedBuffer { .. }),
        "{refused:?}"
    );
    assert_eq!(client.statistics().dropped, 1);

    let pending = ask(&mut client, 1);
    let (sample, responder) = server
        .take(BOUND)
        .expect("sound")
        .expect("asked")
        .into_parts();
    let kept = sample.part(0, 1).expect("inside");
    let refused = responder.forward(sample).expect_err("a part is kept");
    assert!(
        matches!(refused, NodeError::SharedBuffer { .. }),
        "{refused:?}"
    );
    // The duty to reply went with the refusal, and the client hears of that.
    let told = client.wait(pending, BOUND).expect_err("no reply");
    assert!(matches!(told, NodeError::Unanswered { .. }), "{told:?}");
    drop((kept, readers, publisher, client, server));
    assert!(is_all_free(&pool));
}

#[test]
fn request_dropped_unanswered_is_told_at_once() {
    let root = Root::new();
    let pool = root.pool();
    let (asking, serving) = two_nodes(&pool);
    let (mut server, mut client) = (server(&serving), client(&asking));
    let pending = ask(&mut client, 1);
    drop(server.take(BOUND).expect("sound").expect("asked"));
    let told = client.wait(pending, BOUND).expect_err("no reply");
    let NodeError::Unanswered {
        channel,
        server: by,
    } = &told
    else {
        panic!("{told:?}")
    };
    let name = format!("serving (pid {})", std::process::id());
    assert_eq!((channel, by), (&"sums".to_owned(), &name));
    let gone = client.wait(pending, Duration::ZERO).expect_err("over");
    assert!(matches!(gone, NodeError::NotPending { .. }), "{gone:?}");
}

#[test]
fn open_requests_are_bounded_and_abandoned_ones_make_room() {
    let root = Root::new();
    let pool = root.pool();
    let (asking, serving) = two_nodes(&pool);
    let mut server = server(&serving);
    let options = ClientOptions::default()
        .outstanding(2)
        .send_timeout(Duration::from_millis(30));
    let mut client = asking.client("sums", &options).expect("opens");
    let first = ask(&mut client, 1);
    ask(&mut client, 2);
    let lease = client.lease(1).expect("free");
    let refused = client.request(lease, 1).expect_err("two are open");
    assert!(
        matches!(refused, NodeError::TooManyRequests { limit: 2, .. }),
        "{refused:?}"
    );
    client.abandon(first);
    // The server still has two of ours, as many as its way back takes: it is passed by, with its
    // name.
    let lease = client.lease(1).expect("free");
    let refused = client.request(lease, 1).expect_err("no room");
    let NodeError::ServersFull { servers, .. } = &refused else {
        panic!("{refused:?}")
    };
    assert!(servers.starts_with("serving (pid "), "{servers}");
    assert!(
        server
            .take(BOUND)
            .expect("sound")
            .expect("asked")
            .reply_in_kind()
            .expect("alone with it")
    );
    let third = ask(&mut client, 3);
    assert_eq!(client.statistics().dropped, 3, "two refused, one abandoned");
    for _ in 0..2 {
        let request = server.take(BOUND).expect("sound").expect("asked");
        assert!(request.reply_in_kind().expect("alone with it"));
    }
    let replies = [(); 2].map(|()| client.take(BOUND).expect("sound").expect("came"));
    assert_eq!(replies[1].request, third);
    drop((replies, client, server));
    assert!(is_all_free(&pool));
}

#[test]
fn without_a_server_a_request_waits_and_then_says_so() {
    let root = Root::new();
    let pool = root.pool();
    let node = Node::join(&pool, "test").expect("joins");
    let options = ClientOptions::default().send_timeout(Duration::from_millis(40));
    let mut client = node.client("sums", &options).expect("opens");
    let start = Instant::now();
    let lease = client.lease(1).expect("free");
    let refused = client.request(lease, 1).expect_err("nobody");
    assert!(start.elapsed() >= Duration::from_millis(40));
    assert!(
        matches!(refused, NodeError::NoServer { waited_ms: 40, .. }),
        "{refused:?}"
    );
    assert!(is_all_free(&pool), "the refused buffer was not released");
    let mut server = server(&node);
    let lease = client.lease(1).expect("free");
    let late = client.call(lease, 1, Duration::from_millis(30));
    let Err(NodeError::NoReply {
        waited_ms: 30,
        server: by,
        ..
    }) = late
    else {
        panic!("{late:?}")
    };
    assert!(by.starts_with("test (pid "), "{by}");
    // What comes now is nobody's.
    let request = server.take(BOUND).expect("sound").expect("asked");
    assert!(request.reply_in_kind().expect("alone with it"));
    assert!(client.take(Duration::ZERO).expect("sound").is_none());
    assert_eq!(client.statistics().dropped, 2);
    assert!(is_all_free(&pool));
}

#[test]
fn requests_go_to_the_servers_in_turn_past_the_full_ones() {
    let root = Root::new();
    let pool = root.pool();
    let (asking, serving) = two_nodes(&pool);
    let narrow = ServerOptions::default().depth(2);
    let mut servers = [
        serving.server("sums", &narrow).expect("opens"),
        server(&serving),
    ];
    let mut client = client(&asking);
    assert!(client.wait_for_servers(2, BOUND).expect("sound"));
    (0..10).for_each(|byte| {
        ask(&mut client, byte);
    });
    let took = servers.each_mut().map(|server| {
        std::iter::from_fn(|| server.try_take().expect("sound"))
            .map(|request| request.reply_in_kind().expect("alone with it"))
            .filter(|sent| *sent)
            .count()
    });
    assert_eq!(took, [2, 8]);
    let replies = std::iter::from_fn(|| client.take(Duration::ZERO).expect("sound"));
    assert_eq!(replies.filter(|reply| reply.outcome.is_ok()).count(), 10);
}

#[test]
fn closed_server_delivers_replies_and_loses_the_rest() {
    let root = Root::new();
    let pool = root.pool();
    let (asking, serving) = two_nodes(&pool);
    let (mut server, mut client) = (server(&serving), client(&asking));
    let asked: Vec<_> = (0..4).map(|byte| ask(&mut client, byte)).collect();
    let first = server.take(BOUND).expect("sound").expect("asked");
    let late = server.take(BOUND).expect("sound").expect("asked");
    assert!(first.reply_in_kind().expect("alone with it"));
    drop(server);
    assert!(!late.reply_in_kind().expect("counted"), "it went nowhere");
    let reply = client.wait(asked[0], BOUND).expect("sound");
    assert_eq!(reply.expect("it had come").to_vec(), [0]);
    for &pending in &asked[1..] {
        let lost = client.wait(pending, BOUND).expect_err("the server went");
        let NodeError::ServerLost { server, reason, .. } = &lost else {
            panic!("{lost:?}")
        };
        assert!(server.starts_with("serving (pid "), "{server}");
        assert_eq!(*reason, ServerLoss::Went);
    }
    assert!(is_all_free(&pool));
    drop((client, asking, serving));
    assert_eq!(pool.snapshot().ports.len(), 0);
}

#[test]
fn late_reply_is_not_counted_at_reused_port_number() {
    let root = Root::new();
    let pool = root.pool();
    let (asking, serving) = two_nodes(&pool);
    let (mut server, mut client) = (server(&serving), client(&asking));
    ask(&mut client, 1);
    let late = server.take(BOUND).expect("sound").expect("asked");
    let is_server = |port: &hythe_node::PortInfo| port.kind == hythe_node::PortKind::Server;
    let number = pool
        .control()
        .tables()
        .ports()
        .find(is_server)
        .expect("open")
        .index;
    drop(server);
    let mut another = asking
        .publisher("elsewhere", &PublisherOptions::default())
        .expect("opens");
    another
        .publish(another.lease(1).expect("free"), 1)
        .expect("to nobody");
    let shown = || {
        pool.control()
            .tables()
            .port(number)
            .expect("taken again")
            .statistics
    };
    let before = shown();
    assert_eq!(before.messages, 1, "it is the publisher's");
    assert!(!late.reply_in_kind().expect("counted"), "it went nowhere");
    assert_eq!(shown(), before);
}

#[test]
fn killed_server_is_named_at_once_and_another_goes_on() {
    let root = Root::new();
    let pool = root.pool();
    let node = Node::join(&pool, "test").expect("joins");
    let mut keeper = Player::start(&root, roles::KEEPER);
    assert_eq!(keeper.hear(), "ready");
    let mut client = client(&node);
    let answered = ask(&mut client, 1);
    let kept = ask(&mut client, 2);
    let queued = ask(&mut client, 3);
    assert_eq!(keeper.hear(), "keeps one");
    let name = format!("keeper (pid {})", keeper.pid());
    let waiting = WatchedThread::me();
    let killer = std::thread::spawn(move || {
        waiting.until_asleep();
        keeper.kill();
    });
    for pending in [kept, queued] {
        let start = Instant::now();
        // Far longer than the death takes to be proven: what ends the wait is the bell of the
        // recovery.
        let lost = client.wait(pending, BOUND).expect_err("it was killed");
        assert!(start.elapsed() < BOUND, "it was a time-out");
        let NodeError::ServerLost { server, .. } = &lost else {
            panic!("{lost:?}")
        };
        assert_eq!(*server, name);
    }
    killer.join().expect("killed");
    let reply = client.wait(answered, BOUND).expect("sound");
    assert_eq!(reply.expect("sent before it died").to_vec(), [1]);
    eventually("what it held comes back", || is_all_free(&pool));
    let echo = Player::start(&root, roles::ECHO);
    assert_eq!(echo.hear(), "ready");
    let mut lease = client.lease(3).expect("free");
    lease.write(0, b"new");
    let reply = client.call(lease, 3, BOUND).expect("another serves");
    assert_eq!(reply.to_vec(), b"new");
    drop((reply, client, echo));
    eventually("all is free", || is_all_free(&pool));
}

/// Killed at any moment, a server loses no slot, and every request ends: with a reply or with its
/// name.
#[test]
fn server_killed_anywhere_loses_no_slot_and_no_request() {
    let root = Root::new();
    let pool = root.pool();
    let node = Node::join(&pool, "test").expect("joins");
    for round in 0..6 {
        let mut echo = Player::start(&root, roles::ECHO);
        assert_eq!(echo.hear(), "ready");
        // Killed among requests, it leaves those behind it without a server.
        let options = ClientOptions::default().send_timeout(Duration::from_millis(20));
        let mut client = node.client("sums", &options).expect("opens");
        assert!(client.wait_for_servers(1, BOUND).expect("sound"));
        let killer = std::thread::spawn(move || {
            // Different from round to round, and never in step with the requests.
            let moment = Duration::from_micros(20_000 + 3_337 * round);
            let_time_pass(moment, "another moment each round");
            echo.kill();
        });
        let mut lost = 0;
        while lost == 0 {
            for bytes in 0..4 {
                let lease = client.lease(8).expect("free");
                match client.request(lease, bytes) {
                    Ok(_) => {}
                    Err(NodeError::NoServer { .. }) => lost += 1,
                    Err(other) => panic!("{other:?}"),
                }
            }
            while client.open_requests() > 0 {
                let reply = client.take(BOUND).expect("sound").expect("an end");
                match reply.outcome {
                    Ok(_) => {}
                    Err(NodeError::ServerLost { .. }) => lost += 1,
                    Err(other) => panic!("{other:?}"),
                }
            }
        }
        killer.join().expect("killed");
        drop(client);
        eventually("all is free", || is_all_free(&pool));
    }
}

#[test]
fn replies_to_a_killed_client_are_dropped_and_counted() {
    let root = Root::new();
    let pool = root.pool();
    let node = Node::join(&pool, "test").expect("joins");
    let mut server = server(&node);
    let mut asker = Player::start(&root, roles::ASKER);
    assert_eq!(asker.hear(), "asked");
    let early = server.take(BOUND).expect("sound").expect("asked");
    let late = server.take(BOUND).expect("sound").expect("asked");
    assert!(early.reply_in_kind().expect("it lives"));
    asker.kill();
    eventually("it is recovered", || pool.snapshot().members.len() == 1);
    assert!(!late.reply_in_kind().expect("counted"), "it reached nobody");
    // It had asked before it died: the request is there, and answering it does no harm.
    let third = server.take(BOUND).expect("sound").expect("asked");
    assert_eq!(third.sample().to_vec(), [2]);
    drop(third);
    assert_eq!(server.statistics().dropped, 2);
    assert_eq!(server.clients().expect("sound"), 0);
    eventually("all is free", || is_all_free(&pool));
    assert_eq!(pool.snapshot().connections.len(), 0);
}

/// A header that makes no sense, a reply to nothing, a counter that is impossible: passed over,
/// counted, named.
#[test]
fn lying_peer_is_counted_and_keeps_nothing_from_the_others() {
    let root = Root::new();
    let pool = root.pool();
    let (asking, serving) = two_nodes(&pool);
    let (mut server, mut client) = (server(&serving), client(&asking));
    let nonsense = ask(&mut client, 1);
    let good = ask(&mut client, 2);
    overwrite_first_header(&pool);
    let request = server.take(BOUND).expect("sound").expect("behind it");
    assert_eq!(request.sample().to_vec(), [2]);
    assert_eq!(server.statistics().violations, 1);
    assert!(request.reply_in_kind().expect("alone with it"));
    let reply = client.wait(good, BOUND).expect("sound").expect("came");
    drop(reply);
    assert!(
        client
            .wait(nonsense, Duration::ZERO)
            .expect("sound")
            .is_none()
    );

    let control = pool.control();
    let port = control
        .tables()
        .ports()
        .find(|port| port.kind == hythe_node::PortKind::Server)
        .expect("open");
    let way = control
        .tables()
        .connections()
        .find(|way| way.consumer_port == port.index)
        .expect("connected");
    control
        .memory()
        .store(way.places.head, 0x8000_0000, Ordering::Relaxed);
    let lease = client.lease(1).expect("free");
    // Left as a liar, it is connected to again: its port is open.
    let sent = client.request(lease, 1).expect("a new connection");
    let lost = client.wait(nonsense, BOUND).expect_err("it lied");
    let NodeError::ServerLost { reason, .. } = &lost else {
        panic!("{lost:?}")
    };
    assert_eq!(*reason, ServerLoss::BrokeItsQueue);
    assert_eq!(client.statistics().violations, 1);
    let request = server.take(BOUND).expect("sound").expect("asked");
    assert!(request.reply_in_kind().expect("alone with it"));
    assert!(client.wait(sent, BOUND).expect("sound").is_some());
}

/// Writes nonsense over the header of the message that waits first, behind everybody's back.
fn overwrite_first_header(pool: &Pool) {
    let control = pool.control();
    let way = control.tables().connections().find(|way| {
        control.memory().load(way.places.tail, Ordering::Acquire)
            > control.memory().load(way.places.head, Ordering::Acquire)
    });
    let entry = way.expect("something waits").places.entries;
    let words =
        std::array::from_fn(|word| control.memory().load(entry + word * 4, Ordering::Relaxed));
    let place = hythe_abi::Descriptor::from_words(words).place;
    let region = pool.region(place.region).expect("its region");
    let slot = region.slot_offset(place.slot).expect("its slot") as u64;
    let file = pool.path().join(format!("region.{}", place.region.0));
    let file = std::fs::OpenOptions::new().write(true).open(file);
    std::os::unix::fs::FileExt::write_all_at(&file.expect("the region's file"), &[9; 16], slot)
        .expect("written");
}
