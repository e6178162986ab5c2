//! A machine by its requests alone.

use super::*;
use crate::hostfile::Settings;

fn task(local: u32) -> Tid {
    Tid::task(FIRST_HOST, local).expect("in range")
}

fn machine_of(tasks: u32) -> State {
    let mut state = State::default();
    for one in 1..=tasks {
        assert!(state.enroll(task(one)));
    }
    state
}

fn reply(sent: Sent) -> Reply {
    match sent.as_slice() {
        [(_, Outgoing::Reply(reply))] => reply.clone(),
        other => panic!("not one reply: {other:?}"),
    }
}

/// Tag, and the integers that a message has.
fn ints(outgoing: &Outgoing) -> (i32, Vec<i32>) {
    let Outgoing::Message(bytes) = outgoing else {
        panic!("{outgoing:?}");
    };
    let mut message = Buffer::from_frame(bytes.clone()).expect("sound");
    let ints = std::iter::from_fn(|| message.unpack_int().ok()).collect();
    (message.info.tag, ints)
}

fn watch(of: Tid, is_cancelled: bool) -> Request {
    Request::Watch {
        event: WatchedEvent::TaskExit,
        of: vec![of],
        tag: 7,
        context: 3,
        is_cancelled,
    }
}

#[test]
fn end_is_told_once_whenever_it_was() {
    let mut state = machine_of(2);
    assert_eq!(
        reply(state.ask(task(1), watch(task(2), false))),
        Reply::Number(0)
    );
    let sent = state.leave(task(2));
    assert_eq!(sent.len(), 1);
    assert_eq!(sent[0].0, task(1));
    assert_eq!(ints(&sent[0].1), (7, vec![task(2).number()]));
    assert_eq!(state.leave(task(2)), []);
    // Afterwards: at once.
    let sent = state.ask(task(1), watch(task(2), false));
    assert_eq!(ints(&sent[0].1), (7, vec![task(2).number()]));
    // One that never enrolled is looked at, and told.
    state.ask(task(1), watch(task(5), false));
    assert!(state.to_look_at().contains(&task(5)));
    assert_eq!(state.ended(task(5)).len(), 1);
    assert_eq!(state.to_look_at(), [task(2)].into(), "its process goes on");
}

#[test]
fn number_that_is_used_again_is_not_that_of_the_task_that_left() {
    let mut state = machine_of(2);
    state.leave(task(2));
    assert_eq!(state.ended(task(2)), []);
    assert!(state.to_look_at().is_empty());
    assert_eq!(
        reply(state.ask(task(1), Request::Tasks)),
        Reply::Tasks(vec![TaskRow {
            task: task(1),
            is_enrolled: true
        }])
    );
    // The next one with it has not enrolled yet, and runs.
    let sent = state.ask(task(1), watch(task(2), false));
    assert_eq!(reply(sent), Reply::Number(0));
    assert!(state.to_look_at().contains(&task(2)));
}

#[test]
fn cancelled_wait_ends_with_its_message() {
    let mut state = machine_of(2);
    state.ask(task(1), watch(task(2), false));
    let sent = state.ask(task(1), watch(task(2), true));
    assert_eq!(ints(&sent[0].1), (7, vec![task(2).number()]));
    assert_eq!(state.leave(task(2)), []);
}

#[test]
fn reader_waits_for_what_is_put_down() {
    let mut state = machine_of(2);
    let take = Request::Take {
        class: "a".to_owned(),
        index: 0,
        flags: 32,
    };
    assert_eq!(state.ask(task(1), take), []);
    let put = Request::Put {
        class: "a".to_owned(),
        flags: 0,
        message: vec![1, 2],
    };
    let sent = state.ask(task(2), put);
    let message = Outgoing::Reply(Reply::Message(vec![1, 2]));
    assert_eq!(sent[0], (task(1), message));
    assert_eq!(sent[1], (task(2), Outgoing::Reply(Reply::Number(0))));
}

#[test]
fn entry_is_from_who_put_it_down() {
    let mut state = machine_of(2);
    let mut forged = Buffer::new(Encoding::Raw);
    forged.info.source = task(1).number();
    let put = Request::Put {
        class: "a".to_owned(),
        flags: 0,
        message: forged.frame().to_vec(),
    };
    assert_eq!(reply(state.ask(task(2), put)), Reply::Number(0));
    let take = Request::Take {
        class: "a".to_owned(),
        index: 0,
        flags: 0,
    };
    let Reply::Message(frame) = reply(state.ask(task(1), take)) else {
        panic!("no entry");
    };
    let entry = Buffer::from_frame(frame).expect("sound");
    assert_eq!(entry.info.source, task(2).number());
}

#[test]
fn contexts_are_new_until_they_are_freed() {
    let mut state = machine_of(1);
    let mut ask = |request| reply(state.ask(task(1), request));
    let free = || Request::FreeContext { context: 0x40001 };
    assert_eq!(ask(Request::NewContext), Reply::Number(0x40001));
    assert_eq!(ask(Request::NewContext), Reply::Number(0x40002));
    assert_eq!(ask(free()), Reply::Number(0));
    assert_eq!(ask(free()), Reply::Refused(Code::NOT_FOUND));
    assert_eq!(ask(Request::NewContext), Reply::Number(0x40001));
}

#[test]
fn who_is_gone_leaves_its_groups_and_those_who_wait_go_on() {
    let mut state = machine_of(2);
    for one in [1, 2] {
        let join = Request::Join {
            group: "g".to_owned(),
        };
        assert_eq!(
            reply(state.ask(task(one), join)),
            Reply::Number(one as i32 - 1)
        );
    }
    let barrier = Request::Barrier {
        group: "g".to_owned(),
        count: 2,
    };
    assert_eq!(state.ask(task(1), barrier), []);
    let sent = state.leave(task(2));
    let failed = Outgoing::Reply(Reply::Refused(Code::NO_GROUP));
    assert_eq!(sent, [(task(1), failed)]);
}

#[test]
fn output_begins_goes_on_and_ends() {
    let mut state = machine_of(2);
    let collect = Request::Collect {
        task: task(2),
        parent: Some(task(1)),
        to: task(1),
        tag: 9,
        context: 0,
    };
    let child = task(2).number();
    let sent = state.ask(task(2), collect.clone());
    let parent = task(1).number();
    assert_eq!(ints(&sent[0].1), (9, vec![child, -2, parent]));
    assert_eq!(ints(&sent[1].1), (9, vec![child, -1, parent]));
    assert_eq!(sent[2].1, Outgoing::Reply(Reply::Number(0)));
    let sent = state.output(task(2), b"hey\n");
    assert_eq!(
        ints(&sent[0].1),
        (9, vec![child, 4, i32::from_ne_bytes(*b"hey\n")])
    );
    assert_eq!(ints(&state.output(task(2), b"")[0].1), (9, vec![child, 0]));
    assert_eq!(state.output(task(2), b"more"), []);
    state.leave(task(1));
    let refused = Reply::Refused(Code::NO_TASK);
    assert_eq!(reply(state.ask(task(2), collect)), refused);
}

#[test]
fn task_watches_bounded_number_and_waits_for_one() {
    let mut state = machine_of(2);
    let watch = |tasks: usize| Request::Watch {
        event: WatchedEvent::TaskExit,
        of: vec![task(2); tasks],
        tag: 1,
        context: 0,
        is_cancelled: false,
    };
    let refused = |code| vec![(task(1), Outgoing::Reply(Reply::Refused(code)))];
    let most = state.ask(task(1), watch(WATCHES_EACH_MAX));
    assert_eq!(most, vec![(task(1), Outgoing::Reply(Reply::Number(0)))]);
    let more = state.ask(task(1), watch(1));
    assert_eq!(more, refused(Code::OUT_OF_RESOURCES));
    // PVM's `PvmMboxWaitForInfo`.
    let wait = || Request::Take {
        class: "a".into(),
        index: 0,
        flags: 32,
    };
    assert_eq!(state.ask(task(1), wait()), vec![]);
    assert_eq!(state.ask(task(1), wait()), refused(Code::BAD_MESSAGE));
}

fn host_watch(event: WatchedEvent, of: i32, tag: i32) -> Request {
    Request::Watch {
        event,
        of: vec![Tid::from_number(of)],
        tag,
        context: 0,
        is_cancelled: false,
    }
}

#[test]
fn hosts_that_come_are_told_as_often_as_was_asked() {
    let mut state = machine_of(2);
    state.ask(task(1), host_watch(WatchedEvent::HostAdd, 2, 1));
    state.ask(task(2), host_watch(WatchedEvent::HostAdd, -1, 2));
    let names = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
    let host = |number| Tid::numbered_host(number).expect("in range");
    let (outcomes, sent) = state.add_hosts(&names("b c b"));
    assert_eq!(
        outcomes,
        [Ok(host(2)), Ok(host(3)), Err(Code::DUPLICATE_HOST)]
    );
    let told = |sent: &Sent| -> Vec<(Tid, (i32, Vec<i32>))> {
        sent.iter().map(|(to, one)| (*to, ints(one))).collect()
    };
    let both = vec![2, host(2).number(), host(3).number()];
    assert_eq!(
        told(&sent),
        [(task(1), (1, both.clone())), (task(2), (2, both))]
    );
    assert_eq!(state.add_hosts(&names("d")).1.len(), 2);
    let (_, sent) = state.add_hosts(&names("e"));
    let one = vec![1, host(5).number()];
    assert_eq!(told(&sent), [(task(2), (2, one))]);
    assert_eq!(state.add_hosts(&names("e")).1, [], "none was added");
    let ended = state.ask(task(2), host_watch(WatchedEvent::HostAdd, 0, 7));
    assert_eq!(reply(ended), Reply::Number(0));
    assert_eq!(state.add_hosts(&names("f")).1, []);
}

#[test]
fn host_goes_with_its_tasks_and_its_number() {
    let mut state = machine_of(1);
    let name = ["b".to_owned()];
    let b = Tid::numbered_host(2).expect("in range");
    assert_eq!(state.add_hosts(&name).0, [Ok(b)]);
    let there = |local| Tid::task(b, local).expect("in range");
    assert!(state.enroll(there(7)));
    state.ask(
        there(7),
        Request::Join {
            group: "g".to_owned(),
        },
    );
    for of in [there(7), there(8)] {
        state.ask(task(1), watch(of, false));
    }
    state.ask(task(1), host_watch(WatchedEvent::HostDelete, b.number(), 9));
    let mut told: Vec<_> = state
        .remove_host(b)
        .iter()
        .map(|(_, one)| ints(one))
        .collect();
    told.sort();
    let wanted = [
        (7, vec![there(7).number()]),
        (7, vec![there(8).number()]),
        (9, vec![b.number()]),
    ];
    assert_eq!(told, wanted, "also of one that had not enrolled");
    let size = state.ask(
        task(1),
        Request::Size {
            group: "g".to_owned(),
        },
    );
    assert_ne!(reply(size), Reply::Number(1));
    // Afterwards: at once.
    let sent = state.ask(task(1), host_watch(WatchedEvent::HostDelete, b.number(), 9));
    assert_eq!(sent.len(), 2);
    assert_eq!(state.ask(task(1), watch(there(8), false)).len(), 2);
    assert_eq!(state.remove_host(FIRST_HOST), [], "the first stays");
    let again = Tid::numbered_host(3).expect("in range");
    assert_eq!(state.add_hosts(&name).0, [Ok(again)]);
}

#[test]
fn what_a_hostfile_says_holds_for_hosts_that_come_later() {
    let mut state = State::default();
    state.name_first_host("a");
    let settings = |speed| Settings {
        speed,
        ..Settings::default()
    };
    let named = |names: &[(&str, u32)]| {
        let names = names.iter();
        names
            .map(|(name, speed)| ((*name).to_owned(), settings(*speed)))
            .collect::<BTreeMap<_, _>>()
    };
    state.set_hosts(named(&[("b", 2)]), settings(3));
    let (outcomes, _) = state.add_hosts(&["b".to_owned(), "c".to_owned()]);
    assert!(outcomes.iter().all(Result::is_ok));
    // Those that are there keep theirs, but for the first.
    state.set_hosts(named(&[("a", 4), ("b", 5)]), settings(6));
    let speeds = |state: &State| match state.hosts() {
        Reply::Hosts(rows) => rows
            .iter()
            .map(|row| row.settings.speed)
            .collect::<Vec<_>>(),
        other => panic!("{other:?}"),
    };
    assert_eq!(speeds(&state), [4, 2, 3]);
    let _ = state.add_hosts(&["d".to_owned()]);
    assert_eq!(speeds(&state), [4, 2, 3, 6]);
}
