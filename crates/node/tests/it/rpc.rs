//! Calls of methods between nodes: every answer, and peers that send what is none.

use std::num::NonZeroU32;
use std::time::Duration;

use crate::support::{BOUND, Root};
use hythe_abi::services::{CallHeader, ReplyHeader};
use hythe_node::rpc::{Call, Caller, HEADER_BYTES, Table};
use hythe_node::{
    Client, ClientOptions, Node, NodeError, Pool, PoolOptions, Server, ServerOptions,
};

const METHOD: u32 = 5;

struct Fixture {
    client: Client,
    server: Server,
    pool: Pool,
    _root: Root,
}

fn fixture() -> Fixture {
    let root = Root::new();
    let options = PoolOptions::new("calls").root(root.path()).bytes(16 << 20);
    let pool = Pool::open_or_create(&options).expect("a pool");
    let [one, other] = ["caller", "callee"].map(|name| Node::join(&pool, name).expect("joins"));
    let server = other.server("methods", &ServerOptions::default());
    let client = one.client("methods", &ClientOptions::default());
    Fixture {
        client: client.expect("a client"),
        server: server.expect("a server"),
        pool,
        _root: root,
    }
}

impl Fixture {
    /// What comes of a call that is answered so.
    fn answered(
        &mut self,
        answer: impl FnOnce(Call) -> Result<bool, NodeError>,
    ) -> Result<Vec<u8>, NodeError> {
        let mut caller = Caller::new(&mut self.client);
        let pending = caller.begin(METHOD, b"argument", BOUND).expect("begun");
        let call = Call::take(&mut self.server, BOUND).expect("sound");
        answer(call.expect("a call")).expect("answered");
        let result = caller.wait(pending, BOUND)?;
        Ok(result.expect("over").to_vec())
    }

    /// What comes of a call whose reply has these bytes.
    fn replied(&mut self, payload: &[u8]) -> Result<Vec<u8>, NodeError> {
        let mut caller = Caller::new(&mut self.client);
        let pending = caller.begin(METHOD, b"argument", BOUND).expect("begun");
        let request = self.server.take(BOUND).expect("sound").expect("a request");
        let mut lease = self.server.lease(payload.len()).expect("a free slot");
        lease.write(0, payload);
        assert!(request.reply(lease, payload.len()).expect("replied"));
        let result = caller.wait(pending, BOUND)?;
        Ok(result.expect("over").to_vec())
    }

    fn assert_clean(self) {
        let Self {
            client,
            server,
            pool,
            _root,
        } = self;
        drop((client, server));
        let audit = pool.snapshot().audit;
        assert_eq!((audit.free, &audit.mismatches[..]), (audit.slots, &[][..]));
    }
}

#[test]
fn each_answer_is_told_apart() {
    let mut fixture = fixture();
    let said = fixture.answered(|call| {
        assert_eq!((call.method(), call.task()), (METHOD, 0));
        assert_eq!(call.timeout(), BOUND);
        assert_eq!(call.argument().to_vec(), b"argument");
        call.reply(b"result")
    });
    assert_eq!(said.expect("a result"), b"result");
    assert_eq!(fixture.answered(|call| call.reply(b"")).expect("none"), b"");

    let failed = fixture.answered(|call| call.fail(NonZeroU32::new(77).expect("not 0")));
    let says = failed.expect_err("fails").to_string();
    assert_eq!(
        says,
        "method 5 over channel `methods` failed with its error 77"
    );
    let unknown = fixture.answered(Call::refuse_method);
    let unknown = unknown.expect_err("unknown");
    assert!(
        matches!(unknown, NodeError::NoSuchMethod { method: METHOD, .. }),
        "{unknown}"
    );
    // More than any buffer of this pool holds.
    let large = fixture.answered(|call| call.reply(&vec![0; 16 << 20]));
    let large = large.expect_err("too large");
    assert!(
        matches!(large, NodeError::ResultTooLarge { bytes, .. } if bytes == 16 << 20),
        "{large}"
    );
    let dropped = fixture.answered(|call| {
        drop(call);
        Ok(true)
    });
    let dropped = dropped.expect_err("given up");
    assert!(matches!(dropped, NodeError::Unanswered { .. }), "{dropped}");
    fixture.assert_clean();
}

#[test]
fn rpc_table_finds_methods_and_detects_lost_callers() {
    let mut fixture = fixture();
    let mut kept = Vec::new();
    let mut table = Table::new()
        .method(1, |call| call.reply(b"one"))
        .method(2, |call| {
            kept.push(call);
            Ok(true)
        });
    let Fixture { client, server, .. } = &mut fixture;
    assert_eq!(table.serve(server, Duration::ZERO).expect("sound"), None);
    let mut caller = Caller::new(client);
    let calls = [2, 1, 3, 2].map(|method| caller.begin(method, b"", BOUND).expect("begun"));
    for _ in calls {
        assert_eq!(table.serve(server, BOUND).expect("sound"), Some(true));
    }
    let one = caller.wait(calls[1], BOUND).expect("sound").expect("over");
    assert_eq!(one.to_vec(), b"one");
    assert!(caller.wait(calls[2], BOUND).is_err(), "there is no third");
    let [first, _, _, last] = calls;
    assert!(caller.wait(last, Duration::ZERO).expect("open").is_none());
    caller.begin(1, b"", BOUND).expect("begun");
    drop(table);
    // The last first.
    let mut kept = kept.into_iter().rev();
    for (call, answer) in [(last, b"last"), (first, b"frst")] {
        assert!(kept.next().expect("kept").reply(answer).expect("answered"));
        let result = caller.wait(call, BOUND).expect("sound").expect("over");
        assert_eq!(result.to_vec(), answer);
    }
    drop((kept, one));
    // Its caller goes before the last call is taken.
    let Fixture {
        client,
        mut server,
        pool,
        _root,
    } = fixture;
    drop(client);
    let mut table = Table::new().method(1, |call| call.reply(b"nobody"));
    let served = table.serve(&mut server, BOUND).expect("sound");
    assert_eq!(served, Some(false));
    assert_eq!(server.statistics().violations, 0);
    drop(server);
    let audit = pool.snapshot().audit;
    assert_eq!(audit.free, audit.slots);
}

#[test]
fn what_is_no_call_is_given_up_and_counted() {
    let mut fixture = fixture();
    let good = CallHeader {
        method: METHOD,
        bytes: 4,
        ..CallHeader::default()
    };
    let bad = [
        CallHeader { method: 0, ..good },
        CallHeader {
            method: 1 << 31,
            ..good
        },
        CallHeader { bytes: 3, ..good },
        CallHeader { bytes: 5, ..good },
        CallHeader {
            bytes: u32::MAX,
            ..good
        },
        CallHeader {
            timeout_ms: u32::MAX,
            ..good
        },
    ];
    let mut payloads: Vec<Vec<u8>> = bad
        .iter()
        .map(|header| [&header.to_bytes()[..], b"four"].concat())
        .collect();
    payloads.push(good.to_bytes()[..HEADER_BYTES - 1].to_vec());
    payloads.push(Vec::new());
    for (number, payload) in (1..).zip(&payloads) {
        let mut lease = fixture.client.lease(payload.len()).expect("a free slot");
        lease.write(0, payload);
        let request = fixture.client.request(lease, payload.len());
        let call = Call::take(&mut fixture.server, Duration::ZERO).expect("sound");
        assert!(call.is_none(), "{payload:?}");
        assert_eq!(fixture.server.statistics().violations, number);
        let told = fixture.client.wait(request.expect("sent"), BOUND);
        let told = told.expect_err("no reply");
        assert!(matches!(told, NodeError::Unanswered { .. }), "{told}");
    }
    // A call behind them is served.
    let said = fixture.answered(|call| call.reply(b"fine"));
    assert_eq!(said.expect("a result"), b"fine");
    fixture.assert_clean();
}

#[test]
fn what_is_no_reply_to_a_call_is_an_error() {
    let mut fixture = fixture();
    let good = ReplyHeader {
        method: METHOD,
        bytes: 4,
        ..ReplyHeader::default()
    };
    let with = |header: ReplyHeader| [&header.to_bytes()[..], b"four"].concat();
    assert_eq!(fixture.replied(&with(good)).expect("a result"), b"four");
    let malformed = [
        with(ReplyHeader { bytes: 3, ..good }),
        with(ReplyHeader { bytes: 5, ..good }),
        with(ReplyHeader {
            bytes: u32::MAX,
            ..good
        }),
        with(ReplyHeader { result: -5, ..good }),
        with(ReplyHeader {
            result: i32::MIN,
            ..good
        }),
        good.to_bytes()[..HEADER_BYTES - 1].to_vec(),
        Vec::new(),
    ];
    for (number, payload) in (1..).zip(malformed) {
        let told = fixture.replied(&payload).expect_err("malformed");
        assert!(matches!(told, NodeError::MalformedReply { .. }), "{told}");
        assert_eq!(fixture.client.statistics().violations, number);
    }
    fixture.assert_clean();
}

#[test]
fn result_that_a_server_sends_all_the_same_is_refused() {
    let mut fixture = fixture();
    let mut caller = Caller::new(&mut fixture.client).largest_result(3);
    let pending = caller.begin(METHOD, b"", BOUND).expect("begun");
    let request = fixture.server.take(BOUND).expect("sound");
    let header = ReplyHeader {
        method: METHOD,
        bytes: 4,
        ..ReplyHeader::default()
    };
    let mut lease = fixture.server.lease(36).expect("a free slot");
    lease.write(0, &header.to_bytes());
    let request = request.expect("a request");
    assert!(request.reply(lease, 36).expect("replied"));
    let told = caller.wait(pending, BOUND).expect_err("too large");
    assert!(
        matches!(
            told,
            NodeError::ResultTooLarge {
                bytes: 4,
                largest: 3,
                ..
            }
        ),
        "{told}"
    );
    fixture.assert_clean();
}

#[test]
fn late_result_is_dropped_and_counted() {
    let mut fixture = fixture();
    let mut caller = Caller::new(&mut fixture.client);
    let late = caller.call(METHOD, b"", Duration::from_millis(1));
    assert!(matches!(late, Err(NodeError::NoReply { .. })), "{late:?}");
    let call = Call::take(&mut fixture.server, BOUND).expect("sound");
    let call = call.expect("a call");
    assert_eq!(call.timeout(), Duration::from_millis(1));
    assert!(call.reply(b"late").expect("it reaches the client"));
    assert_eq!(
        fixture
            .answered(|call| call.reply(b"in time"))
            .expect("a result"),
        b"in time"
    );
    assert_eq!(fixture.client.statistics().dropped, 1);
    fixture.assert_clean();
}

#[test]
#[should_panic(expected = "method 2147483648 is none of a program's own")]
fn method_of_hythe_is_not_called_so() {
    let mut fixture = fixture();
    let _ = Caller::new(&mut fixture.client).begin(1 << 31, b"", BOUND);
}

#[test]
fn no_call_allocates() {
    let Fixture {
        mut client,
        mut server,
        _root,
        ..
    } = fixture();
    let mut table = Table::new().method(METHOD, |call| {
        let mut argument = [0; 8];
        call.argument().read(0, &mut argument);
        call.reply(&argument)
    });
    let mut caller = Caller::new(&mut client);
    let mut round = || {
        let pending = caller.begin(METHOD, b"argument", BOUND).expect("begun");
        let served = table.serve(&mut server, BOUND).expect("sound");
        assert_eq!(served, Some(true));
        let result = caller.wait(pending, BOUND).expect("sound");
        let mut bytes = [0; 8];
        result.expect("over").read(0, &mut bytes);
        assert_eq!(&bytes, b"argument");
    };
    // Ports connect with the first, and tables grow with the next ones.
    (0..100).for_each(|_| round());
    let counted = allocation_counter::measure(|| (0..1000).for_each(|_| round()));
    assert_eq!(counted.count_total, 0);
}
