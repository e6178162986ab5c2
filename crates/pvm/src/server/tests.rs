//! A server whose tasks and runners are sockets of the test.

use std::io::{BufRead as _, BufReader, ErrorKind, Read as _, Write as _};
use std::os::unix::net::UnixListener;

use hythe_node::PoolOptions;

use super::*;
use crate::buffer::{Buffer, Encoding};
use crate::code::Code;
use crate::hostfile::Settings;
use crate::machine::{Reply, Request, WatchedEvent};
use crate::tid::FIRST_HOST;
use crate::wire;

/// Far longer than anything takes on a busy machine.
const BOUND: Duration = Duration::from_secs(120);

struct Fixture {
    _root: tempfile::TempDir,
    options: PoolOptions,
    pool: Pool,
}

impl Fixture {
    fn new() -> Self {
        let root = tempfile::tempdir().expect("a folder");
        let options = PoolOptions::new("test").root(root.path()).bytes(16 << 20);
        let pool = Pool::open_or_create(&options).expect("a pool");
        Self {
            _root: root,
            options,
            pool,
        }
    }

    /// A runner that does not answer by itself.
    fn runner(&self, job: u32) -> UnixListener {
        let path = self.pool.path().join(format!("tasks.{job}"));
        UnixListener::bind(path).expect("a free name")
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        let _ = Pool::remove_by_force(&self.options);
    }
}

fn here() -> FirstHost {
    FirstHost {
        name: "here".to_owned(),
        realm_number: 0,
    }
}

/// The first task of a job.
fn task(job: u32) -> Tid {
    Tid::task(FIRST_HOST, job << 9).expect("in range")
}

struct Peer {
    stream: UnixStream,
    came: Vec<u8>,
}

impl Peer {
    fn connect(fixture: &Fixture) -> Self {
        let stream = UnixStream::connect(socket_path(&fixture.pool.path())).expect("served");
        stream.set_read_timeout(Some(BOUND)).expect("set");
        Self {
            stream,
            came: Vec::new(),
        }
    }

    fn enroll(fixture: &Fixture, own: Tid) -> Self {
        let mut peer = Self::connect(fixture);
        peer.say(&Request::Enroll { task: own });
        assert_eq!(peer.next(), Outgoing::Reply(Reply::Number(0)));
        peer
    }

    fn say(&mut self, request: &Request) {
        let mut bytes = Vec::new();
        wire::append(&mut bytes, request).expect("short");
        self.stream.write_all(&bytes).expect("written");
    }

    fn next(&mut self) -> Outgoing {
        loop {
            if let Some(outgoing) = wire::take(&mut self.came).expect("sound") {
                return outgoing;
            }
            let mut bytes = [0; 4096];
            let read = self.stream.read(&mut bytes).expect("it comes in time");
            assert!(read > 0, "the server has let it go");
            self.came.extend_from_slice(&bytes[..read]);
        }
    }
}

fn watch(of: Tid) -> Request {
    Request::Watch {
        event: WatchedEvent::TaskExit,
        of: vec![of],
        tag: 7,
        context: 0,
        is_cancelled: false,
    }
}

#[test]
fn runner_that_does_not_answer_stalls_nobody() {
    let fixture = Fixture::new();
    let (asked, unasked) = (fixture.runner(7), fixture.runner(8));
    let server = Server::start(&fixture.pool, &here()).expect("it starts");
    let mut peer = Peer::enroll(&fixture, task(1));
    peer.say(&watch(task(7)));
    assert_eq!(peer.next(), Outgoing::Reply(Reply::Number(0)));
    let (runner, _) = asked.accept().expect("it is asked");
    let mut request = String::new();
    let mut lines = BufReader::new(&runner);
    lines.read_line(&mut request).expect("a request");
    assert!(request.contains("7.0"), "{request}");
    // It is being asked, for seconds.
    peer.say(&Request::NewContext);
    assert!(matches!(peer.next(), Outgoing::Reply(Reply::Number(1..))));
    runner.set_nonblocking(true).expect("set");
    let more = (&runner).read(&mut [0]).expect_err("it is not given up");
    assert_eq!(more.kind(), ErrorKind::WouldBlock);
    let answer = b"{\"reply\":\"no-such-task\"}\n";
    (&runner).write_all(answer).expect("written");
    let Outgoing::Message(frame) = peer.next() else {
        panic!("no notice");
    };
    let mut notice = Buffer::from_frame(frame).expect("sound");
    assert_eq!(notice.unpack_int(), Ok(task(7).number()));
    // Nobody waits for a task of the other.
    unasked.set_nonblocking(true).expect("set");
    let none = unasked.accept().expect_err("it is not asked");
    assert_eq!(none.kind(), ErrorKind::WouldBlock);
    drop(server);
}

/// What comes over the agent, which says first from which host.
fn elsewhere(fixture: &Fixture, name: &str) -> Peer {
    let stream = UnixStream::connect(hythe_cluster::tasks::service_socket(&fixture.pool));
    let mut stream = stream.expect("served");
    stream.set_read_timeout(Some(BOUND)).expect("set");
    stream.write_all(name.as_bytes()).expect("written");
    Peer {
        stream,
        came: Vec::new(),
    }
}

#[test]
fn task_of_another_host_is_none_of_this_one() {
    let fixture = Fixture::new();
    let server = Server::start(&fixture.pool, &here()).expect("it starts");
    let refused = Outgoing::Reply(Reply::Refused(Code::NO_HOST));
    // A host that is none of the machine.
    let mut peer = elsewhere(&fixture, "b\n");
    peer.say(&Request::Enroll { task: task(1) });
    assert_eq!(peer.next(), refused);
    // A number that no host has yet.
    let second = Tid::task(Tid::numbered_host(2).expect("in range"), 512).expect("in range");
    let mut peer = elsewhere(&fixture, "b\n");
    peer.say(&Request::Enroll { task: second });
    assert_eq!(peer.next(), refused);
    let collect = |task| Request::Collect {
        task,
        parent: None,
        to: task,
        tag: 1,
        context: 0,
    };
    peer.say(&collect(task(1)));
    let bad = Outgoing::Reply(Reply::Refused(Code::BAD_PARAMETER));
    assert_eq!(peer.next(), bad);
    // Without an agent there are no other hosts.
    let mut own = Peer::enroll(&fixture, task(1));
    own.say(&Request::AddHosts {
        names: vec!["b".to_owned(), "here".to_owned(), String::new()],
    });
    let numbers = [Code::NO_HOST, Code::DUPLICATE_HOST, Code::NO_HOST];
    let numbers = numbers.map(Code::number).to_vec();
    assert_eq!(own.next(), Outgoing::Reply(Reply::Numbers(numbers)));
    own.say(&Request::DeleteHosts {
        names: vec!["here".to_owned()],
    });
    let first = vec![Code::BAD_PARAMETER.number()];
    assert_eq!(own.next(), Outgoing::Reply(Reply::Numbers(first)));
    // Where programs are is said on the first host.
    let said = |speed| {
        let settings = Settings {
            speed,
            ..Settings::default()
        };
        Request::SetHosts {
            named: [("here".to_owned(), settings.clone())].into(),
            others: settings,
        }
    };
    own.say(&said(7));
    assert_eq!(own.next(), Outgoing::Reply(Reply::Number(0)));
    own.say(&Request::Hosts);
    let Outgoing::Reply(Reply::Hosts(hosts)) = own.next() else {
        panic!("no hosts");
    };
    assert_eq!(hosts[0].settings.speed, 7);
    // What the machine has is nobody's who is in none of it.
    let mut peer = elsewhere(&fixture, "b\n");
    let nothing = Outgoing::Reply(Reply::Refused(Code::SYSTEM));
    for request in [
        Request::Hosts,
        Request::AddHosts { names: Vec::new() },
        Request::DeleteHosts { names: Vec::new() },
        Request::Tasks,
        said(1),
    ] {
        peer.say(&request);
        assert_eq!(peer.next(), nothing, "{request:?}");
    }
    // Nor does anybody keep much for it.
    let mut peer = elsewhere(&fixture, "b\n");
    let _ = peer.stream.write_all(&(200_u32 << 20).to_le_bytes());
    let _ = peer.stream.write_all(&vec![0; 1 << 20]);
    let closed = peer.stream.read(&mut [0]);
    assert!(closed.is_err() || closed.is_ok_and(|read| read == 0));
    // A name without an end is no agent's.
    let mut peer = elsewhere(&fixture, &"b".repeat(4096));
    let closed = peer.stream.read(&mut [0]);
    assert!(closed.is_err() || closed.is_ok_and(|read| read == 0));
    drop(server);
}

#[test]
fn who_does_not_take_answers_gets_no_more_of_them() {
    const LONG: usize = 1 << 20;
    let fixture = Fixture::new();
    let server = Server::start(&fixture.pool, &here()).expect("it starts");
    let [mut greedy, mut other] = [1, 2].map(|job| Peer::enroll(&fixture, task(job)));
    let put = |class: &str, length| Request::Put {
        class: class.to_owned(),
        flags: 0,
        message: Buffer::new(Encoding::Raw).frame().repeat(1 + length / 64),
    };
    greedy.say(&put("long", LONG));
    assert!(matches!(greedy.next(), Outgoing::Reply(Reply::Number(_))));
    let take = Request::Take {
        class: "long".to_owned(),
        index: 0,
        flags: 0,
    };
    const TIMES: usize = 60;
    for _ in 0..TIMES {
        greedy.say(&take);
    }
    greedy.say(&put("last", 0));
    // What comes before the second of these was seen by the server before it answers.
    for _ in 0..2 {
        let pattern = "last".to_owned();
        other.say(&Request::Classes { pattern });
        let none = Outgoing::Reply(Reply::Classes(Vec::new()));
        assert_eq!(other.next(), none, "it is not answered yet");
    }
    for _ in 0..TIMES {
        let reply = greedy.next();
        assert!(matches!(reply, Outgoing::Reply(Reply::Message(_))));
    }
    assert!(matches!(greedy.next(), Outgoing::Reply(Reply::Number(_))));
    drop(server);
}

/// It takes the question, and says nothing.
#[test]
fn agent_that_does_not_answer_is_asked_about_one_host_only() {
    let fixture = Fixture::new();
    let agent = UnixListener::bind(fixture.pool.path().join("tasks.agent")).expect("a free name");
    let in_realm = FirstHost {
        realm_number: 1,
        ..here()
    };
    let server = Server::start(&fixture.pool, &in_realm).expect("it starts");
    let mut peer = Peer {
        stream: UnixStream::connect(socket_path(&fixture.pool.path())).expect("served"),
        came: Vec::new(),
    };
    let names = ["b", "c", "d"].map(str::to_owned).to_vec();
    peer.say(&Request::AddHosts { names });
    let numbers = [Code::NO_HOST, Code::CANNOT_START, Code::CANNOT_START];
    let numbers = numbers.map(Code::number).to_vec();
    assert_eq!(peer.next(), Outgoing::Reply(Reply::Numbers(numbers)));
    agent.set_nonblocking(true).expect("set");
    assert!(agent.accept().is_ok() && agent.accept().is_err());
    drop(server);
}

/// An agent that is connected with host b, which says this of itself.
fn agent_of_two(fixture: &Fixture, facts: &'static str) -> JoinHandle<UnixStream> {
    let place = fixture.pool.path().join("tasks.agent");
    let agent = UnixListener::bind(place).expect("a free name");
    std::thread::spawn(move || {
        let answer = |wanted: &str, answer: &str| {
            let (mut stream, _) = agent.accept().expect("asked");
            let mut line = String::new();
            let mut reader = BufReader::new(&stream);
            reader.read_line(&mut line).expect("a line");
            assert!(line.contains(wanted), "{line}");
            stream.write_all(answer.as_bytes()).expect("written");
            stream
        };
        let session = answer("watch", "{\"reply\":\"connected\"}\n");
        answer("facts", facts);
        session
    })
}

#[test]
fn host_is_what_its_agent_says() {
    let fixture = Fixture::new();
    let facts = r#"{"reply":"facts","clock":{"secs":1,"nanos":0},"asked":{"secs":1,"nanos":0},
        "answered":{"secs":1,"nanos":0},"pointer_bytes":4,"is_big_endian":true}"#;
    let facts = facts.replace('\n', "") + "\n";
    let agent = agent_of_two(&fixture, facts.leak());
    let in_realm = FirstHost {
        realm_number: 1,
        ..here()
    };
    let server = Server::start(&fixture.pool, &in_realm).expect("it starts");
    let mut own = Peer::connect(&fixture);
    let names = vec!["b".to_owned()];
    own.say(&Request::AddHosts { names });
    let b = Tid::numbered_host(2).expect("in range");
    assert_eq!(
        own.next(),
        Outgoing::Reply(Reply::Numbers(vec![b.number()]))
    );
    // Before any task of it enrols.
    own.say(&Request::Hosts);
    let Outgoing::Reply(Reply::Hosts(hosts)) = own.next() else {
        panic!("no hosts");
    };
    let of_b = hosts.iter().find(|host| host.host == b).expect("it came");
    assert_eq!(
        (of_b.architecture.as_str(), of_b.format),
        ("LINUX", 0x0065_8a59)
    );
    assert_ne!(hosts[0].format, of_b.format);
    drop(agent.join().expect("it was asked"));
    drop(server);
}

#[test]
fn host_that_does_not_say_what_it_is_is_not_taken_in() {
    let fixture = Fixture::new();
    let agent = agent_of_two(&fixture, "{\"reply\":\"refused\",\"reason\":\"no\"}\n");
    let in_realm = FirstHost {
        realm_number: 1,
        ..here()
    };
    let server = Server::start(&fixture.pool, &in_realm).expect("it starts");
    let mut own = Peer::connect(&fixture);
    let names = vec!["b".to_owned()];
    own.say(&Request::AddHosts { names });
    let none = vec![Code::CANNOT_START.number()];
    assert_eq!(own.next(), Outgoing::Reply(Reply::Numbers(none)));
    drop(agent.join().expect("it was asked"));
    drop(server);
}
