//! Messages that a task has not received yet: they never occupy what others need, they have a
//! limit, and the end of their sender delivers them.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use crate::support::{BOUND, Root, eventually};
use hythe_cluster::tasks::{Message, Task, TaskError, TaskId, TaskOptions, Wanted};
use hythe_node::{Pool, PoolOptions, PortKind, RegionIndex};
use serde_json::{Value, json};

/// The group of all tasks.
const GROUP: &str = "all";
/// The payload of most messages.
const BYTES: usize = 60_000;
const AT_ONCE: Duration = Duration::ZERO;

/// A job of tasks of this process, whose runner is this test.
struct Job {
    pool: Pool,
    options: PoolOptions,
    runner: Arc<Runner>,
    _root: Root,
}

#[derive(Default)]
struct Runner {
    enrolled: Mutex<u32>,
    /// Connections of those that wait for a task's end, by the task.
    watching: Mutex<BTreeMap<String, Vec<UnixStream>>>,
    /// Connections of those that wait at the barrier.
    meeting: Mutex<Vec<UnixStream>>,
}

impl Runner {
    /// Answers as the runner of a job does.
    fn answer(&self, stream: &UnixStream) {
        let cloned = || stream.try_clone().expect("cloned");
        for line in BufReader::new(cloned()).lines().map_while(Result::ok) {
            let request: Value = serde_json::from_str(&line).expect("a request");
            let reply = match request["request"].as_str().expect("a word") {
                "enrol" => {
                    let mut enrolled = self.enrolled.lock().expect("sound");
                    *enrolled += 1;
                    json!({"reply": "enrolled", "task": format!("1.{}", *enrolled)})
                }
                "watch" => {
                    let task = request["task"].as_str().expect("a task").to_owned();
                    let mut watching = self.watching.lock().expect("sound");
                    watching.entry(task).or_default().push(cloned());
                    json!({"reply": "done"})
                }
                "members" => {
                    let enrolled = *self.enrolled.lock().expect("sound");
                    let members =
                        (0..enrolled).map(|number| json!([number, format!("1.{}", number + 1)]));
                    json!({"reply": "members", "members": members.collect::<Vec<_>>()})
                }
                "meet" => {
                    self.meeting.lock().expect("sound").push(cloned());
                    json!({"reply": "done"})
                }
                _ => json!({"reply": "done"}),
            };
            say(stream, &reply);
        }
    }
}

/// Nobody may be there any more.
fn say(mut stream: &UnixStream, words: &Value) {
    let _ = stream.write_all(format!("{words}\n").as_bytes());
}

impl Job {
    fn new() -> Self {
        let root = Root::new();
        let options = PoolOptions::new("test").root(root.path()).bytes(16 << 20);
        let pool = Pool::open_or_create(&options).expect("made");
        let listener = UnixListener::bind(pool.path().join("tasks.1")).expect("bound");
        let runner = Arc::new(Runner::default());
        let serving = Arc::clone(&runner);
        thread::spawn(move || {
            while let Ok((stream, _)) = listener.accept() {
                let runner = Arc::clone(&serving);
                thread::spawn(move || runner.answer(&stream));
            }
        });
        Self {
            pool,
            options,
            runner,
            _root: root,
        }
    }

    fn task(&self) -> Task {
        self.task_with(&TaskOptions::default())
    }

    fn task_with(&self, options: &TaskOptions) -> Task {
        Task::enrol(&self.options, options).expect("taken in")
    }

    /// The runner says that a task has ended, to those that asked.
    fn end(&self, task: TaskId) {
        let task = task.to_string();
        let mut watching = self.runner.watching.lock().expect("sound");
        for stream in watching.remove(&task).unwrap_or_default() {
            say(&stream, &json!({"reply": "ended", "task": task}));
        }
    }

    /// More messages of this length than there are slots for them.
    fn more_than_slots(&self, bytes: usize) -> u32 {
        let region = self.pool.region(RegionIndex(0)).expect("there is one");
        let classes = region.classes.iter();
        let fitting = classes.filter(|class| class.payload_bytes() >= bytes);
        fitting.map(|class| class.count).sum::<u32>() + 1
    }

    /// How many messages a task has taken from its queues.
    fn taken(&self, task: TaskId) -> u64 {
        let channel = self.pool.channel(&format!("task/{task}"));
        let channel = channel.expect("it has one").index;
        let mut ports = self.pool.ports().into_iter();
        let port = ports.find(|port| port.channel == channel && port.kind == PortKind::Subscriber);
        let port = port.expect("it has one");
        self.pool.last_statistics(port.index).messages
    }

    /// Sends messages to a task that waits for something else, each when it has taken the one
    /// before.
    fn send_one_by_one(&self, from: &Task, to: TaskId, count: u32) {
        let before = self.taken(to);
        for number in 0..count {
            from.send(to, 7, &payload(number)).expect("sent");
            let taken = before + u64::from(number) + 1;
            eventually("it is taken", || self.taken(to) >= taken);
        }
    }
}

fn payload(number: u32) -> Vec<u8> {
    let mut bytes = vec![0; BYTES];
    bytes[..4].copy_from_slice(&number.to_le_bytes());
    bytes
}

fn assert_numbered(message: &Message, number: u32) {
    let mut first = [0; 4];
    message.read(0, &mut first);
    assert_eq!((u32::from_le_bytes(first), message.len()), (number, BYTES));
}

fn receive(task: &mut Task, tag: u32) -> Message {
    let received = task.receive(Wanted::any().tag(tag), BOUND);
    received.expect("sound").expect("in time")
}

/// All of these, in order, and nothing else.
fn receive_numbered(task: &mut Task, count: u32) {
    for number in 0..count {
        assert_numbered(&receive(task, 7), number);
    }
    let more = task.receive(Wanted::any(), AT_ONCE).expect("sound");
    assert!(more.is_none(), "{more:?}");
}

#[test]
fn unwanted_messages_leave_slots_to_the_wanted_one() {
    let job = Job::new();
    let (sender, mut receiver) = (job.task(), job.task());
    let (to, count) = (receiver.id(), job.more_than_slots(BYTES));
    let waiting = thread::spawn(move || {
        assert_eq!(receive(&mut receiver, 8).to_vec(), b"wanted");
        receiver
    });
    job.send_one_by_one(&sender, to, count);
    sender.send(to, 8, b"wanted").expect("sent");
    let mut receiver = waiting.join().expect("it came");
    receive_numbered(&mut receiver, count);
}

#[test]
fn gather_receives_from_a_slow_member_behind_a_fast_one() {
    let job = Job::new();
    let (mut root, mut slow, mut fast) = (job.task(), job.task(), job.task());
    let group = root.group(GROUP).expect("asked");
    let (to, count) = (root.id(), job.more_than_slots(BYTES));
    let gathering = thread::spawn({
        let group = group.clone();
        move || {
            for number in 0..count {
                let gathered = group.gather(&mut root, 0, b"", BOUND).expect("all come");
                let bytes = payload(number);
                assert_eq!(gathered, [vec![], bytes.clone(), bytes]);
            }
        }
    });
    let give = |task: &mut Task, number| {
        let given = group.gather(task, 0, &payload(number), BOUND);
        given.expect("sent");
    };
    for number in 0..count {
        give(&mut fast, number);
        eventually("it is taken", || job.taken(to) > u64::from(number));
    }
    (0..count).for_each(|number| give(&mut slow, number));
    gathering.join().expect("all came");
}

#[test]
fn received_messages_that_are_kept_leave_slots_to_others() {
    let job = Job::new();
    let (sender, mut receiver) = (job.task(), job.task());
    let count = 2 * job.more_than_slots(BYTES);
    let kept: Vec<Message> = (0..count)
        .map(|number| {
            let bytes = payload(number);
            sender.send(receiver.id(), 7, &bytes).expect("sent");
            receive(&mut receiver, 7)
        })
        .collect();
    for (number, message) in (0..).zip(&kept) {
        assert_numbered(message, number);
    }
    assert_eq!(sender.kept_bytes(), 0);
}

#[test]
fn leases_that_are_kept_leave_slots_to_others() {
    let job = Job::new();
    let (one, other, mut receiver) = (job.task(), job.task(), job.task());
    let count = job.more_than_slots(BYTES);
    let lease = |number| {
        let mut lease = one.lease(receiver.id(), BYTES).expect("leased");
        lease.write(0, &payload(number));
        lease
    };
    let leases: Vec<_> = (0..count).map(lease).collect();
    assert!(leases[0].is_in_slot());
    other.send(receiver.id(), 8, &payload(0)).expect("sent");
    assert_eq!(other.kept_bytes(), 0);
    assert_numbered(&receive(&mut receiver, 8), 0);
    for lease in leases {
        one.send_leased(lease, 7).expect("sent or kept");
    }
    receive_numbered(&mut receiver, count);
}

#[test]
fn waits_for_other_things_keep_what_arrives() {
    type Wait = fn(Task, TaskId) -> Task;
    let barrier: Wait = |mut task, _| {
        task.barrier(GROUP, 2, BOUND).expect("it opens");
        task
    };
    let end: Wait = |mut task, of| {
        task.notify_end(of).expect("asked");
        assert_eq!(task.take_end(BOUND).expect("sound"), Some(of));
        task
    };
    let ask: Wait = |task, of| {
        eventually("it ends", || task.has_ended(of).expect("sound"));
        task
    };
    for wait in [barrier, end, ask] {
        let job = Job::new();
        let (sender, receiver, third) = (job.task(), job.task(), job.task());
        let (to, of, count) = (receiver.id(), third.id(), job.more_than_slots(BYTES));
        let waiting = thread::spawn(move || wait(receiver, of));
        job.send_one_by_one(&sender, to, count);
        job.end(of);
        let meeting = std::mem::take(&mut *job.runner.meeting.lock().expect("sound"));
        let met = json!({"reply": "met", "group": GROUP});
        meeting.iter().for_each(|stream| say(stream, &met));
        let mut receiver = waiting.join().expect("it was told");
        receive_numbered(&mut receiver, count);
    }
}

#[test]
fn what_other_waits_keep_makes_the_descriptor_readable() {
    let job = Job::new();
    let (sender, mut receiver) = (job.task(), job.task());
    let own = receiver.id();
    let is_readable = |receiver: &mut Task| {
        let descriptor = receiver.descriptor().expect("there is one");
        let mut polled = [rustix::event::PollFd::new(
            &descriptor,
            rustix::event::PollFlags::IN,
        )];
        let now = rustix::event::Timespec::default();
        rustix::event::poll(&mut polled, Some(&now)).expect("polled") == 1
    };
    for number in 0..3 {
        sender.send(own, number, b"").expect("sent");
    }
    // Before the descriptor is asked for the first time.
    receiver.keep_arrived().expect("sound");
    for number in 0..3 {
        assert!(is_readable(&mut receiver), "{number}");
        assert_eq!(receive(&mut receiver, number).tag(), number);
    }
    let none = receiver.receive(Wanted::any(), AT_ONCE).expect("sound");
    assert!(none.is_none() && !is_readable(&mut receiver));
    sender.send(own, 3, b"").expect("sent");
    receiver.keep_arrived().expect("sound");
    assert!(is_readable(&mut receiver));
    let none = receiver.receive(Wanted::any().tag(9), AT_ONCE);
    assert!(none.expect("sound").is_none());
    assert!(!is_readable(&mut receiver), "it was passed by");
    assert_eq!(receive(&mut receiver, 3).tag(), 3);
}

#[test]
fn full_inbox_pushes_back_and_fails_calls_that_look_behind_it() {
    let job = Job::new();
    let few = TaskOptions::default().passed_by_bytes(10 * BYTES);
    let (sender, mut receiver) = (job.task(), job.task_with(&few));
    let to = receiver.id();
    for number in 0..1000 {
        sender.send(to, 7, &payload(number)).expect("sent or kept");
    }
    sender.send(to, 8, b"behind them").expect("sent or kept");
    let full = |error: TaskError| {
        let TaskError::InboxFull { kept, most } = error else {
            panic!("{error}");
        };
        assert!(kept <= most && most == 10 * BYTES, "{kept} {most}");
    };
    for _ in 0..3 {
        full(
            receiver
                .receive(Wanted::any().tag(8), BOUND)
                .expect_err("it is full"),
        );
        full(
            receiver
                .probe(Wanted::any().tag(8))
                .expect_err("it is full"),
        );
    }
    // Other waits go on.
    assert!(!receiver.has_ended(sender.id()).expect("sound"));
    let last = receiver.take_end(AT_ONCE).expect("sound");
    assert_eq!(last, None);
    // Nothing was lost: what is received makes place for what follows.
    for number in 0..500 {
        assert_numbered(&receive(&mut receiver, 7), number);
    }
    receiver.set_passed_by_bytes_max(1 << 30);
    assert_eq!(receive(&mut receiver, 8).to_vec(), b"behind them");
    for number in 500..1000 {
        assert_numbered(&receive(&mut receiver, 7), number);
    }
}

#[test]
fn wanted_message_may_be_larger_than_the_limit() {
    let job = Job::new();
    let few = TaskOptions::default().passed_by_bytes(2 * BYTES);
    let (one, other, mut receiver) = (job.task(), job.task(), job.task_with(&few));
    let to = receiver.id();
    let large: Vec<u8> = (0..20_000_000_u32).map(|at| (at % 251) as u8).collect();
    one.send(to, 8, &large).expect("sent or kept");
    // What has come of it counts for a call that looks for another one.
    let full = loop {
        match receiver.receive(Wanted::any().tag(9), AT_ONCE) {
            Ok(none) => assert!(none.is_none()),
            Err(error) => break error,
        }
    };
    assert!(matches!(full, TaskError::InboxFull { .. }), "{full}");
    other.send(to, 7, b"unwanted").expect("sent");
    assert!(receive(&mut receiver, 8).into_vec() == large);
    assert_eq!(receive(&mut receiver, 7).to_vec(), b"unwanted");
}

#[test]
fn messages_without_bytes_count_against_both_limits() {
    let job = Job::new();
    let few = TaskOptions::default()
        .kept_bytes(10_000)
        .passed_by_bytes(10_000);
    let (sender, mut receiver) = (job.task_with(&few), job.task_with(&few));
    let to = receiver.id();
    let refused = (0..10_000).find_map(|_| sender.send(to, 7, b"").err());
    let refused = refused.expect("a limit");
    assert!(
        matches!(refused, TaskError::KeptTooMuch { .. }),
        "{refused}"
    );
    let full = receiver.receive(Wanted::any().tag(8), BOUND);
    let full = full.expect_err("a limit");
    assert!(matches!(full, TaskError::InboxFull { .. }), "{full}");
    while receiver
        .receive(Wanted::any(), AT_ONCE)
        .expect("sound")
        .is_some()
        || sender.kept_bytes() > 0
    {}
}

#[test]
fn probe_leaves_the_order_of_messages() {
    let job = Job::new();
    let (sender, mut receiver) = (job.task(), job.task());
    for tag in 1..=3 {
        sender.send(receiver.id(), tag, b"").expect("sent");
    }
    for tag in [3, 2] {
        let found = receiver.probe(Wanted::any().tag(tag)).expect("sound");
        assert_eq!(found, Some((sender.id(), tag, 0)));
    }
    for tag in 1..=3 {
        let received = receiver.receive(Wanted::any(), AT_ONCE).expect("sound");
        assert_eq!(received.map(|message| message.tag()), Some(tag));
    }
}

/// More than the pool has.
fn send_many(from: &Task, to: TaskId) {
    for number in 0..1000 {
        from.send(to, 7, &payload(number)).expect("sent or kept");
    }
    assert!(from.kept_bytes() > 0);
}

#[test]
fn end_of_a_sender_delivers_what_it_has_sent() {
    let job = Job::new();
    let forever = TaskOptions::default().linger(Duration::MAX);
    let (sender, mut receiver) = (job.task_with(&forever), job.task());
    send_many(&sender, receiver.id());
    let ending = thread::spawn(move || drop(sender));
    receive_numbered(&mut receiver, 1000);
    ending.join().expect("no panic");
}

#[test]
fn end_of_a_receiver_ends_the_wait_of_its_senders() {
    let job = Job::new();
    let forever = TaskOptions::default().linger(Duration::MAX);
    let (sender, receiver) = (job.task_with(&forever), job.task());
    send_many(&sender, receiver.id());
    let of = receiver.id();
    let ending = thread::spawn(move || drop(sender));
    job.end(of);
    ending.join().expect("no panic");
    drop(receiver);
}

#[test]
fn tasks_that_end_at_once_do_not_wait_for_each_other() {
    let job = Job::new();
    let forever = TaskOptions::default().linger(Duration::MAX);
    let (one, other) = (job.task_with(&forever), job.task_with(&forever));
    send_many(&one, other.id());
    send_many(&other, one.id());
    send_many(&one, one.id());
    let (ended, own) = (one.id(), other.id());
    let ending = thread::spawn(move || drop(one));
    let also = thread::spawn(move || drop(other));
    // The end of a task is that of its process: the first to end is not waited for any more.
    let mut ending = Some(ending);
    eventually("one of them has ended", || {
        ending.as_ref().is_some_and(thread::JoinHandle::is_finished) || also.is_finished()
    });
    job.end(ended);
    job.end(own);
    ending.take().expect("once").join().expect("no panic");
    also.join().expect("no panic");
}
