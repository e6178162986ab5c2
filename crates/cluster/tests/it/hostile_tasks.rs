//! A host with a good name that lies about tasks: what it says and takes is bounded, it is told
//! why, and others are unharmed. What its parts of jobs say is tried in `src/tasks/runner/`.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::time::Duration;

use crate::support::carrier::dial;
use crate::support::host::{ALL, LEASE, TestHost};
use crate::support::liar::{Honest, LIAR, Liar, answer_to, message, open, open_as, say_hello};
use crate::support::{BOUND, eventually};
use hythe_cluster::HostName;
use hythe_cluster::frame::{Answer, Hello, Preamble, Purpose, TasksWish, encode};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Another host that asks for tasks.
const OTHER: &str = "a-too";
/// The numbers of the hosts in the realm.
const NUMBERS: [(&str, u32); 4] = [(LIAR, 1), ("b", 2), ("c", 3), (OTHER, 4)];
/// The program that others may start.
const PROGRAM: &str = "program";

/// Host b, where others may start one program, and host c.
fn honest() -> Honest {
    let mut host = TestHost::without_agent("b");
    host.task_command = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/support/part.sh");
    host.start(&format!("{ALL}* {PROGRAM} spawn\n"), LEASE);
    let numbers = NUMBERS.map(|(name, number)| (name.parse().expect("a name"), number));
    let numbers: BTreeMap<HostName, u32> = numbers.into();
    let agent = host.agent.as_ref().expect("runs");
    agent.set_host_numbers(numbers);
    Honest::of(host, TestHost::new("c"))
}

fn part(job: u32) -> TasksWish {
    TasksWish::Part {
        job,
        program: PROGRAM.to_owned(),
        hosts: Vec::new(),
    }
}

/// Job 1 of the host with this number.
const fn job_of(host: u32) -> u32 {
    host << 9 | 1
}

/// Sends bytes of a pipe, and what ends its direction if there are none.
fn chunk(bytes: &[u8]) -> Vec<u8> {
    [&(bytes.len() as u32).to_le_bytes()[..], bytes].concat()
}

/// So many bytes of a pipe, or fewer where it ends.
fn read_chunks(stream: &mut TcpStream, bytes: usize) -> Vec<u8> {
    let mut read = Vec::new();
    while read.len() < bytes {
        let mut length = [0; 4];
        stream.read_exact(&mut length).expect("a length");
        let mut part = vec![0; u32::from_le_bytes(length) as usize];
        if part.is_empty() {
            break;
        }
        stream.read_exact(&mut part).expect("a chunk");
        read.extend(part);
    }
    read
}

/// Ends a pipe, and waits until the other side has.
fn end_pipe(stream: &mut TcpStream) {
    stream.write_all(&chunk(b"")).expect("sent");
    assert_eq!(read_chunks(stream, usize::MAX), b"");
}

impl Liar {
    fn wish(&self, host: &TestHost, wish: TasksWish) -> (TcpStream, Answer) {
        let session = self.session;
        open(host, Purpose::Tasks { session, wish })
    }

    /// A connection with a part of a job of its own.
    fn part(&self, host: &TestHost) -> TcpStream {
        let (stream, answer) = self.wish(host, part(job_of(1)));
        assert_eq!(answer, Answer::Tasks);
        stream
    }
}

#[test]
fn wishes_that_nobody_may_have_are_refused() {
    let mut honest = honest();
    let liar = Liar::begin(&honest.host);
    let named = |job, program: &str, hosts: u32| TasksWish::Part {
        job,
        program: program.to_owned(),
        hosts: (0..hosts)
            .map(|number| format!("h{number}").parse().expect("a name"))
            .collect(),
    };
    let runner = |job| TasksWish::Runner { job };
    for (wish, reason) in [
        (named(job_of(1), "another", 0), "spawn"),
        (part(job_of(2)), "is none of host a"),
        (part(job_of(3)), "is none of host a"),
        (part(0), "0 is no job"),
        (part(u32::MAX), "is no job"),
        (named(job_of(1), PROGRAM, 257), "hosts in a job"),
        (runner(0), "0 is no job"),
        // The host's own job, that of another, and its own: it takes part in none.
        (runner(job_of(2)), "has no tasks on host a"),
        (runner(job_of(3)), "has no tasks on host a"),
        (runner(job_of(1)), "has no tasks on host a"),
    ] {
        let (_, answer) = liar.wish(&honest.host, wish.clone());
        let Answer::Refused { reason: said } = answer else {
            panic!("{wish:?}: {answer:?}");
        };
        assert!(said.contains(reason), "{wish:?}: {said}");
        assert!(honest.host.is_connected_to(LIAR), "it may ask");
    }
    // It has a part now, but the job's runner is not here.
    let _part = liar.part(&honest.host);
    let (_, answer) = liar.wish(&honest.host, runner(job_of(1)));
    assert!(matches!(answer, Answer::Refused { .. }), "{answer:?}");
    let session = liar.session ^ 1;
    let wish = part(job_of(1));
    let (_, answer) = open(&honest.host, Purpose::Tasks { session, wish });
    assert!(matches!(answer, Answer::Refused { .. }), "{answer:?}");
    // Nor does it hear of a host in whose session it is not.
    let (_, answer) = open(&honest.host, Purpose::Host { session });
    assert!(matches!(answer, Answer::Refused { .. }), "{answer:?}");
    honest.assert_unharmed();
    drop(liar);
    honest.end();
}

#[test]
fn wish_that_cannot_be_read_is_refused() {
    let mut honest = honest();
    let liar = Liar::begin(&honest.host);
    let wish = TasksWish::Part {
        job: job_of(1),
        program: "x".repeat(10_000),
        hosts: Vec::new(),
    };
    let (_, answer) = liar.wish(&honest.host, wish);
    let said = format!("{answer:?}");
    assert!(
        said.contains("Refused") && said.contains("cannot be read"),
        "{said}"
    );
    for (lie, reason) in [([0xff; 4], "the longest has"), ([0; 4], "cannot be read")] {
        let mut stream = dial(LIAR, honest.host.carrier.address()).expect("connects");
        stream.set_read_timeout(Some(BOUND)).expect("set");
        stream.write_all(&Preamble::to_bytes()).expect("sent");
        stream.write_all(&lie).expect("sent");
        stream.read_exact(&mut [0; 16]).expect("a preamble");
        let said = format!("{:?}", message::<Answer>(&mut stream));
        assert!(said.contains("Refused") && said.contains(reason), "{said}");
    }
    assert!(honest.host.is_connected_to(LIAR), "it may ask");
    honest.assert_unharmed();
    drop(liar);
    honest.end();
}

/// The host is unharmed, and all ends.
fn end<P, S>(
    mut honest: Honest,
    (runner, part): (std::thread::JoinHandle<()>, P),
    (liar, stream): (Liar, S),
) {
    drop(part);
    let path = honest.host.pool.path().join("tasks.1.1");
    drop(UnixStream::connect(path).expect("it listens"));
    runner.join().expect("no panic");
    honest.assert_unharmed();
    drop((liar, stream));
    honest.end();
}

/// A runner of job 1 of host a, in the pool of host b: says that it has heard, and nothing more.
fn runner(host: &TestHost) -> std::thread::JoinHandle<()> {
    let path = host.pool.path().join("tasks.1.1");
    let listener = UnixListener::bind(path).expect("bound");
    std::thread::spawn(move || {
        let mut kept = Vec::new();
        while let Ok((mut stream, _)) = listener.accept() {
            let mut line = String::new();
            let _ = BufReader::new(&stream).read_line(&mut line);
            if line.is_empty() {
                break;
            }
            let _ = stream.write_all(b"{\"reply\":\"done\"}\n");
            kept.push(stream);
        }
    })
}

/// One host takes all connections that it gets; another gets one all the same.
#[test]
fn flood_of_connections_of_tasks_leaves_some_for_others() {
    let mut honest = honest();
    let liar = Liar::begin(&honest.host);
    let runner = runner(&honest.host);
    let mut taken = vec![liar.part(&honest.host)];
    let refused = loop {
        let (stream, answer) = liar.wish(&honest.host, TasksWish::Runner { job: job_of(1) });
        match answer {
            Answer::Tasks => taken.push(stream),
            other => break other,
        }
    };
    assert_eq!(taken.len(), 256);
    let said = format!("{refused:?}");
    assert!(
        said.contains("more than 255 connections of tasks"),
        "{said}"
    );
    honest.assert_unharmed();
    let other = Liar::begin_as(OTHER, &honest.host);
    let (session, wish) = (other.session, part(job_of(4)));
    let purpose = Purpose::Tasks { session, wish };
    let (mut stream, answer) = open_as(OTHER, &honest.host, purpose);
    assert_eq!(answer, Answer::Tasks);
    stream.write_all(&chunk(b"echo\nhello")).expect("sent");
    assert_eq!(read_chunks(&mut stream, 5), b"hello");
    // What it gives back it may have again.
    drop(taken);
    eventually("another is taken", || {
        let (_, answer) = liar.wish(&honest.host, part(job_of(1)));
        answer == Answer::Tasks
    });
    let path = honest.host.pool.path().join("tasks.1.1");
    drop(UnixStream::connect(path).expect("it listens"));
    runner.join().expect("no panic");
    drop((liar, other, stream));
    honest.end();
}

/// A part that takes nothing holds up its own connection, and nothing else; what the host sends is
/// not kept without a bound.
#[test]
fn flood_in_a_connection_of_tasks_stops_at_its_part() {
    let mut honest = honest();
    let liar = Liar::begin(&honest.host);
    let mut stream = liar.part(&honest.host);
    let go = honest.host.root().join("go");
    let hold = format!("hold {}\n", go.display());
    stream.write_all(&chunk(hold.as_bytes())).expect("sent");
    stream
        .set_write_timeout(Some(Duration::from_millis(500)))
        .expect("set");
    let (mut sent, flood) = (0, chunk(&[0; 64 << 10]));
    let stopped = loop {
        match stream.write(&flood[sent % flood.len()..]) {
            Ok(written) => sent += written,
            Err(error) => break error,
        }
        // Far more than all sockets on the way keep.
        assert!(sent < 256 << 20, "{sent} bytes were taken");
    };
    assert_eq!(stopped.kind(), ErrorKind::WouldBlock);
    honest.assert_unharmed();
    let mut echo = liar.part(&honest.host);
    echo.write_all(&chunk(b"echo\nhello")).expect("sent");
    assert_eq!(read_chunks(&mut echo, 5), b"hello");
    std::fs::write(&go, b"").expect("written");
    stream.set_write_timeout(None).expect("set");
    stream
        .write_all(&flood[sent % flood.len()..])
        .expect("it is read");
    stream.shutdown(Shutdown::Write).expect("open");
    drop((stream, echo, liar));
    honest.end();
}

/// What is asked on a connection that there is.
fn ask_again(stream: &mut TcpStream, purpose: Purpose) -> Answer {
    say_hello(stream, LIAR, purpose);
    answer_to(stream)
}

#[test]
fn connection_whose_pipe_has_ended_leads_to_what_is_wished_next() {
    let honest = honest();
    let liar = Liar::begin(&honest.host);
    let runner = runner(&honest.host);
    let part = liar.part(&honest.host);
    let session = liar.session;
    let wish = || Purpose::Tasks {
        session,
        wish: TasksWish::Runner { job: job_of(4) },
    };
    let (mut stream, answer) = liar.wish(&honest.host, TasksWish::Runner { job: job_of(1) });
    assert_eq!(answer, Answer::Tasks);
    for _ in 0..3 {
        stream.write_all(&chunk(b"to the runner\n")).expect("sent");
        end_pipe(&mut stream);
        let runner = Purpose::Tasks {
            session,
            wish: TasksWish::Runner { job: job_of(1) },
        };
        assert_eq!(ask_again(&mut stream, runner), Answer::Tasks);
    }
    // What a wish needs is judged for each.
    end_pipe(&mut stream);
    let answer = ask_again(&mut stream, wish());
    let said = format!("{answer:?}");
    assert!(said.contains("has no tasks on host a"), "{said}");
    assert_eq!(stream.read(&mut [0]).expect("closed"), 0, "and it is over");
    end(honest, (runner, part), (liar, stream));
}

#[test]
fn what_else_is_asked_on_a_connection_about_tasks_is_refused() {
    let honest = honest();
    let liar = Liar::begin(&honest.host);
    let runner = runner(&honest.host);
    let part = liar.part(&honest.host);
    let session = liar.session;
    let wish = TasksWish::Runner { job: job_of(1) };
    for (purpose, reason) in [
        (Purpose::Control { session }, "on a connection about tasks"),
        (Purpose::Host { session }, "on a connection about tasks"),
        (
            Purpose::Tasks {
                session: session ^ 1,
                wish: wish.clone(),
            },
            "session",
        ),
    ] {
        let (mut stream, answer) = liar.wish(&honest.host, wish.clone());
        assert_eq!(answer, Answer::Tasks);
        end_pipe(&mut stream);
        let Answer::Refused { reason: said } = ask_again(&mut stream, purpose) else {
            panic!("{reason}: not refused");
        };
        assert!(said.contains(reason), "{said}");
        assert!(honest.host.is_connected_to(LIAR), "it may ask");
    }
    // A chunk that is too long ends the connection.
    let (mut stream, answer) = liar.wish(&honest.host, wish);
    assert_eq!(answer, Answer::Tasks);
    stream.write_all(&u32::MAX.to_le_bytes()).expect("sent");
    // The end of the other direction may come first: a length of 0.
    let mut rest = Vec::new();
    let ended = std::io::Read::take(&mut stream, 64).read_to_end(&mut rest);
    let is_over = ended.map_err(|error| error.kind()) != Err(ErrorKind::WouldBlock);
    assert!(is_over && rest.iter().all(|&byte| byte == 0), "{rest:?}");
    assert!(rest.len() <= 4, "{rest:?}");
    end(honest, (runner, part), (liar, stream));
}

/// So many connections that carry nothing are kept for a host.
#[test]
fn host_has_a_bounded_number_of_connections_that_carry_nothing() {
    let mut honest = honest();
    let liar = Liar::begin(&honest.host);
    let runner = runner(&honest.host);
    let part = liar.part(&honest.host);
    let wish = TasksWish::Runner { job: job_of(1) };
    let mut idle = Vec::new();
    for _ in 0..40 {
        let (mut stream, answer) = liar.wish(&honest.host, wish.clone());
        assert_eq!(answer, Answer::Tasks);
        end_pipe(&mut stream);
        idle.push(stream);
    }
    let is_open = |stream: &TcpStream| {
        stream.set_nonblocking(true).expect("set");
        matches!(stream.peek(&mut [0]), Err(error) if error.kind() == ErrorKind::WouldBlock)
    };
    eventually("the others are closed", || {
        idle.iter().filter(|stream| is_open(stream)).count() <= 16
    });
    assert!(idle.iter().any(is_open), "and some are not");
    // As long as tasks use its connections nobody breaks them for better ones.
    let agent = honest.host.agent.as_ref().expect("runs");
    let is_left_alone = |host: &str| {
        let host = host.parse().expect("a name");
        agent.without_tasks(&host, || ()).is_none()
    };
    assert!(is_left_alone(LIAR) && !is_left_alone("c"));
    drop(part);
    eventually("no task uses any", || !is_left_alone(LIAR));
    let path = honest.host.pool.path().join("tasks.1.1");
    drop(UnixStream::connect(path).expect("it listens"));
    runner.join().expect("no panic");
    honest.assert_unharmed();
    drop((liar, idle));
    honest.end();
}

/// A process of host b that wants the runner of a job on the liar's host.
fn ask_for_runner(honest: &Honest) -> UnixStream {
    let path = honest.host.pool.path().join("tasks.agent");
    let mut asking = UnixStream::connect(path).expect("the agent listens");
    asking.set_read_timeout(Some(BOUND)).expect("set");
    let job = job_of(1);
    let request = format!("{{\"request\":\"runner\",\"job\":{job}}}\n");
    asking.write_all(request.as_bytes()).expect("sent");
    asking
}

fn told_connected(asking: &UnixStream) {
    let mut line = String::new();
    BufReader::new(asking).read_line(&mut line).expect("told");
    assert!(line.contains("\"connected\""), "{line}");
}

/// Has anything come?
fn is_ready(file: &impl AsFd) -> bool {
    let mut polled = [PollFd::new(file, PollFlags::IN)];
    poll(&mut polled, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
}

/// A process that asks until it is by this connection, which is kept as soon as the host has heard
/// of its end. Until then the host makes others.
fn ask_again_on(kept: &TcpStream, listener: &TcpListener, honest: &Honest) -> UnixStream {
    loop {
        let asking = ask_for_runner(honest);
        eventually("it is asked", || is_ready(kept) || is_ready(listener));
        if is_ready(kept) {
            return asking;
        }
        let reason = "not by this one".to_owned();
        drop(Liar::answer(listener, &Answer::Refused { reason }));
    }
}

/// The other side may close what this one keeps: then a new connection is made.
#[test]
fn open_pipe_accepts_connection_of_ended_task() {
    let mut honest = honest();
    let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
    let liar = Liar::begin(&honest.host);
    let address = listener.local_addr().expect("bound");
    honest
        .host
        .directory
        .show(&LIAR.parse().expect("a name"), address);
    honest.assert_unharmed();
    let asking = ask_for_runner(&honest);
    let (mut stream, _) = Liar::answer(&listener, &Answer::Tasks);
    told_connected(&asking);
    drop(asking);
    for _ in 0..3 {
        assert_eq!(read_chunks(&mut stream, usize::MAX), b"", "its end");
        stream.write_all(&chunk(b"")).expect("sent");
        let mut asking = ask_again_on(&stream, &listener, &honest);
        stream.read_exact(&mut [0; 16]).expect("a preamble");
        let hello: Hello = message(&mut stream);
        assert!(matches!(hello.purpose, Purpose::Tasks { .. }), "{hello:?}");
        let mut bytes = Preamble::to_bytes().to_vec();
        encode(&Answer::Tasks, &mut bytes).expect("short");
        stream.write_all(&bytes).expect("sent");
        told_connected(&asking);
        asking.write_all(b"hello").expect("sent");
        assert_eq!(read_chunks(&mut stream, 5), b"hello");
        stream.write_all(&chunk(b"back")).expect("sent");
        let mut back = [0; 4];
        asking.read_exact(&mut back).expect("it comes");
        assert_eq!(back, *b"back");
    }
    assert_eq!(read_chunks(&mut stream, usize::MAX), b"", "its end");
    drop(stream);
    let asking = ask_for_runner(&honest);
    let (stream, _) = Liar::answer(&listener, &Answer::Tasks);
    told_connected(&asking);
    drop((asking, stream));
    assert!(honest.host.is_connected_to(LIAR));
    honest.assert_unharmed();
    drop(liar);
    honest.end();
}

/// What a process of host b is told that wants a part on the liar's host, which answers so.
fn told(honest: &Honest, listener: &TcpListener, answer: &Answer) -> String {
    let path = honest.host.pool.path().join("tasks.agent");
    let mut asking = UnixStream::connect(path).expect("the agent listens");
    asking.set_read_timeout(Some(BOUND)).expect("set");
    let request = format!(
        "{{\"request\":\"part\",\"host\":\"{LIAR}\",\"job\":{},\"program\":\"x\",\"hosts\":[]}}\n",
        job_of(2)
    );
    asking.write_all(request.as_bytes()).expect("sent");
    let (_stream, hello) = Liar::answer(listener, answer);
    assert!(matches!(hello.purpose, Purpose::Tasks { .. }), "{hello:?}");
    let mut line = String::new();
    BufReader::new(&asking).read_line(&mut line).expect("told");
    line
}

#[test]
fn answers_that_make_no_sense_are_told_to_who_asked() {
    let mut honest = honest();
    let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
    let liar = Liar::begin(&honest.host);
    let address = listener.local_addr().expect("bound");
    let name = LIAR.parse().expect("a name");
    honest.host.directory.show(&name, address);
    honest.assert_unharmed();
    let reason = |text: &str| Answer::Refused {
        reason: text.to_owned(),
    };
    for (answer, expected) in [
        (Answer::Session { session: 7 }, "to a wish about tasks"),
        (reason("not today"), "not today"),
        (reason(&"x".repeat(60_000)), "xxx"),
    ] {
        let told = told(&honest, &listener, &answer);
        assert!(
            told.contains("\"refused\"") && told.contains(expected),
            "{told}"
        );
        assert!(told.len() < 2_000, "{} bytes", told.len());
    }
    assert!(honest.host.is_connected_to(LIAR), "it may refuse");
    honest.assert_unharmed();
    drop(liar);
    honest.end();
}
