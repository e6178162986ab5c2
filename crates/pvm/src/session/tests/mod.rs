//! Sessions of several tasks on a machine in memory.

mod fake;
mod rounds;

use std::time::Duration;

use super::{Event, Round, Session, SpawnPlace};
use crate::buffer::{Buffer, Encoding};
use crate::code::Code;
use crate::handlers::Pattern;
use crate::inbox::Wanted;
use crate::machine::{Reply, Request, Spawn};
use fake::{KEPT_BYTES_MAX, Network, TIMEOUT};

const AT_ONCE: Duration = Duration::ZERO;
const ANYWHERE: SpawnPlace<'_> = SpawnPlace { flags: 0, name: "" };

type Task = Session<char>;

fn none(_name: &str) -> Option<String> {
    None
}

fn task(network: &Network, local: u32) -> Task {
    Session::new(network.machine(local), none)
}

/// As the library does it, in one step.
impl Task {
    fn wait_for_reply(&mut self) -> Result<Reply, Code> {
        self.reply(TIMEOUT)?.ok_or(Code::SYSTEM)
    }

    fn barrier(&mut self, group: &str, count: i32) -> Result<i32, Code> {
        self.begin_barrier(group, count)?;
        let reply = self.wait_for_reply()?;
        self.end_barrier(reply)
    }

    fn freeze_group(&mut self, group: &str, size: i32) -> Result<i32, Code> {
        self.begin_freeze(group, size)?;
        let reply = self.wait_for_reply()?;
        self.end_freeze(group, size, reply)
    }

    fn look_at_members(&mut self, round: &mut Round) -> Result<(), Code> {
        self.begin_look("g")?;
        let reply = self.wait_for_reply()?;
        self.end_look(round, reply)
    }
}

/// Sends one integer.
fn send(from: &mut Task, to: &Task, tag: i32, value: i32) {
    from.buffers.begin_send(Encoding::Xdr);
    let packed = from.buffers.sending().and_then(|it| it.pack_int(value));
    packed.expect("packed");
    from.send(to.task().number(), tag, None).expect("sent");
}

/// Takes in all that has come, then receives: the integer.
fn receive(task: &mut Task, source: i32, tag: i32) -> Option<i32> {
    while task.pull(AT_ONCE).expect("the machine is there").is_some() {}
    let wanted = task.wanted(source, tag);
    task.receive(&wanted)?;
    task.buffers.receiving().ok()?.unpack_int().ok()
}

#[test]
fn messages_are_received_by_sender_tag_and_context() {
    let network = Network::default();
    let (mut one, mut two, mut three) = (task(&network, 1), task(&network, 2), task(&network, 3));
    send(&mut one, &three, 7, 17);
    send(&mut two, &three, 7, 27);
    send(&mut two, &three, 8, 28);
    assert_eq!(receive(&mut three, two.task().number(), -1), Some(27));
    assert_eq!(receive(&mut three, -1, 8), Some(28));
    let context = two.new_context().expect("there are some");
    assert_eq!(two.set_context(context), 0);
    send(&mut two, &three, 7, 37);
    assert_eq!(receive(&mut three, -1, -1), Some(17));
    assert_eq!(receive(&mut three, -1, -1), None);
    three.set_context(context);
    assert_eq!(receive(&mut three, -1, -1), Some(37));
}

#[test]
fn task_sends_to_itself() {
    let network = Network::default();
    let mut one = task(&network, 1);
    one.buffers.begin_send(Encoding::Raw);
    let packed = one.buffers.sending().and_then(|it| it.pack_int(5));
    packed.expect("packed");
    let own = one.task().number();
    one.send(own, 3, None).expect("sent");
    assert_eq!(receive(&mut one, own, 3), Some(5));
}

#[test]
fn what_cannot_be_sent_is_refused() {
    let network = Network::default();
    let mut one = task(&network, 1);
    assert_eq!(one.send(0x40002, 1, None), Err(Code::NO_BUFFER));
    one.buffers.begin_send(Encoding::Xdr);
    for bad in [0, -1, 0x40000, i32::MIN] {
        assert_eq!(one.send(bad, 1, None), Err(Code::BAD_PARAMETER), "{bad:x}");
    }
    assert_eq!(one.send(0x40002, -1, None), Err(Code::BAD_PARAMETER));
    one.options.set(11, 1).expect("an option");
    assert_eq!(one.send(0x40002, -1, None), Ok(()));
}

#[test]
fn what_is_packed_in_place_is_sent_as_raw_bytes() {
    let network = Network::default();
    let (mut one, mut two) = (task(&network, 1), task(&network, 2));
    one.buffers.begin_send(Encoding::InPlace);
    let to = two.task().number();
    one.send(to, 1, Some(&77_i32.to_ne_bytes())).expect("sent");
    assert_eq!(receive(&mut two, -1, -1), Some(77));
}

#[test]
fn handler_gets_its_messages_and_leaves_the_active_ones() {
    let network = Network::default();
    let (mut one, mut two) = (task(&network, 1), task(&network, 2));
    let pattern = Pattern {
        source: -1,
        tag: 9,
        context: 0,
    };
    two.handlers.add(pattern, 'h').expect("new");
    send(&mut one, &two, 4, 40);
    assert_eq!(receive(&mut two, -1, 4), Some(40));
    let (sending, active) = (
        two.buffers.begin_send(Encoding::Xdr),
        two.buffers.receive_number(),
    );
    send(&mut one, &two, 9, 90);
    let Ok(Some(Event::Handle('h', buffer))) = two.pull(AT_ONCE) else {
        panic!("no handler");
    };
    let before = two.begin_handler(buffer);
    assert_eq!(two.buffers.receive_number(), buffer);
    let value = two.buffers.receiving().and_then(Buffer::unpack_int);
    assert_eq!(value, Ok(90));
    two.end_handler(buffer, before);
    assert_eq!(two.buffers.send_number(), sending);
    assert_eq!(two.buffers.receive_number(), active);
    assert_eq!(two.buffers.remove(buffer).err(), Some(Code::NO_SUCH_BUFFER));
    assert_eq!(receive(&mut two, -1, 9), None);
}

#[test]
fn probed_message_is_received_and_frees_its_number() {
    let network = Network::default();
    let (mut one, mut two) = (task(&network, 1), task(&network, 2));
    send(&mut one, &two, 4, 40);
    assert!(matches!(two.pull(AT_ONCE), Ok(Some(Event::Message))));
    let wanted = Wanted {
        source: -1,
        tag: 4,
        context: 0,
    };
    let probed = two.probe(&wanted).expect("it is there");
    assert_eq!(two.probe(&wanted), Some(probed), "the same again");
    assert_eq!(two.buffers.find(probed).map(|it| it.info.tag), Ok(4));
    // The program gives it up, and the number becomes another's.
    two.buffers.remove(probed).expect("it is there");
    assert_eq!(two.buffers.begin_send(Encoding::Raw), probed);
    assert_eq!(receive(&mut two, -1, 4), Some(40));
    assert_eq!(two.buffers.send_number(), probed, "it was left alone");
}

#[test]
fn spawned_tasks_get_what_their_parent_sets() {
    let network = Network::default();
    let mut one = task(&network, 1);
    one.set_context(5);
    one.catch_output(true);
    let variable = |name: &str| match name {
        "PVM_EXPORT" => Some("A::B".to_owned()),
        "A" => Some("1".to_owned()),
        _ => None,
    };
    let spawned = one
        .spawn("p", vec!["x".to_owned()], ANYWHERE, 2, variable)
        .expect("there is a host");
    assert_eq!(spawned.len(), 2);
    let [
        Spawn {
            program,
            count,
            variables,
            ..
        },
    ] = &network.spawned()[..]
    else {
        panic!("not one");
    };
    assert_eq!((program.as_str(), *count), ("p", 2));
    let own = one.task().number();
    let wanted = [
        ("HYTHE_PVM_CONTEXT", "5".to_owned()),
        ("HYTHE_PVM_OUTPUT", format!("{own} 1 524286")),
        ("A", "1".to_owned()),
        ("PVM_EXPORT", "A::B".to_owned()),
    ];
    let wanted = wanted.map(|(name, value)| (name.to_owned(), value));
    assert_eq!(variables.as_slice(), wanted);
    // What they set is read again.
    let read = |name: &str| {
        let mut all = wanted.iter();
        all.find(|(one, _)| one == name)
            .map(|(_, value)| value.clone())
    };
    let child = Session::<char>::new(network.machine(100), read);
    assert_eq!(child.context(), 5);
    assert_eq!(child.parent(), Ok(own));
    assert_eq!(child.options.get(12), Ok(own));
    assert_eq!(child.options.get(4), Ok(own), "its children's, too");
}

#[test]
fn place_that_is_not_there_is_refused() {
    let network = Network::default();
    let mut one = task(&network, 1);
    for (flags, name, is_there) in [
        (1, "here", true),
        (1, ".", true),
        (1, "elsewhere", false),
        (2, "LINUX64", true),
        (2, "CRAY", false),
        (1 | 32, ".", false),
        (1 | 32, "elsewhere", true),
        (1, "there", false),
    ] {
        let place = SpawnPlace { flags, name };
        let spawned = one.spawn("p", Vec::new(), place, 1, none);
        assert_eq!(
            spawned != Ok(vec![Err(Code::NO_HOST)]),
            is_there,
            "{flags} {name}"
        );
    }
    let missing = one.spawn("missing", Vec::new(), ANYWHERE, 2, none);
    assert_eq!(missing, Ok(vec![Err(Code::NO_FILE); 2]));
    for count in [0, -1] {
        let spawned = one.spawn("p", Vec::new(), ANYWHERE, count, none);
        assert_eq!(spawned, Err(Code::BAD_PARAMETER));
    }
}

#[test]
fn caught_output_is_waited_for_and_what_never_comes_is_not() {
    let network = Network::default();
    let mut one = task(&network, 1);
    one.catch_output(true);
    let spawned = one
        .spawn("p", Vec::new(), ANYWHERE, 2, none)
        .expect("there is a host");
    let [Ok(first), Ok(second)] = spawned[..] else {
        panic!("{spawned:?}");
    };
    assert_eq!(one.is_output_open(), Ok(true));
    // The second is no program of PVM's: it collects nothing.
    network.end(second);
    let mut child = Session::<char>::new(network.machine(first.local()), none);
    let collect = Request::Collect {
        task: first,
        parent: Some(one.task()),
        to: one.task(),
        tag: 1,
        context: super::OUTPUT_CONTEXT,
    };
    child.ask_number(collect).expect("it prints to its parent");
    network.print(first, b"hello\n");
    drop(child);
    assert_eq!(one.is_output_open(), Ok(true), "its end has not come");
    network.print(first, b"");
    let mut text = Vec::new();
    while let Some(event) = one.pull(AT_ONCE).expect("the machine is there") {
        if let Event::Print(bytes) = event {
            text.extend_from_slice(&bytes);
        }
    }
    let wanted = format!("[{first}] BEGIN\n[{first}] hello\n[{first}] EOF\n");
    assert_eq!(String::from_utf8(text), Ok(wanted));
    assert_eq!(one.is_output_open(), Ok(false));
}

#[test]
fn members_of_a_group_meet() {
    let network = Network::default();
    let threads = [1, 2, 3].map(|local| {
        let mut member = task(&network, local);
        std::thread::spawn(move || {
            let instance = member.join_group("g").expect("new");
            assert_eq!(member.freeze_group("g", 3), Ok(3));
            assert_eq!(member.barrier("g", -1), Ok(0));
            let own = member.task().number();
            assert_eq!(member.group_instance("g", own), Ok(instance));
            let (members, root) = member.meeting("g", 1).expect("a member");
            assert_eq!(members.len(), 3);
            assert_eq!(member.group_member("g", 1), Ok(root.number()));
            if member.task() != root {
                member.send_step(root, 5, b"part").expect("sent");
            } else {
                for (_, other) in members.iter().filter(|(_, other)| *other != root) {
                    let mut part = None;
                    while part.is_none() {
                        let pulled = member.pull(Duration::from_secs(10));
                        pulled.expect("the machine is there");
                        part = member.take_step(*other, 5);
                    }
                    assert_eq!(part.expect("it came").body(), b"part");
                }
            }
            assert_eq!(member.barrier("g", 3), Ok(0));
            assert_eq!(member.join_group("g"), Err(Code::NOT_IN_GROUP));
        })
    });
    for thread in threads {
        thread.join().expect("all went well");
    }
}

#[test]
fn frozen_group_keeps_members_until_they_leave() {
    let network = Network::default();
    let members = [1, 2].map(|local| {
        let mut member = task(&network, local);
        std::thread::spawn(move || {
            member.join_group("g").expect("new");
            assert_eq!(member.freeze_group("g", 2), Ok(2));
            member
        })
    });
    let [mut one, mut two] = members.map(|member| member.join().expect("all went well"));
    let gone = (two.group_instance("g", two.task().number()), two.task());
    assert_eq!(two.leave_group("g"), Ok(0));
    assert_eq!(two.group_size("g"), Ok(1), "it asks again");

    assert_eq!(one.group_size("g"), Ok(2));
    let instance = one.group_instance("g", gone.1.number());
    assert_eq!(instance, gone.0);
    let member = one.group_member("g", instance.expect("one of them"));
    assert_eq!(member, Ok(gone.1.number()));
    assert_eq!(one.group_member("g", 2), Err(Code::NO_INSTANCE));
    assert_eq!(
        one.group_instance("g", 3 + gone.1.number()),
        Err(Code::NOT_IN_GROUP)
    );
    assert_eq!(one.meeting("g", 1).map(|(members, _)| members.len()), Ok(2));
    assert_eq!(one.barrier("g", -1), Err(Code::NO_GROUP));
    assert_eq!(one.leave_group("g"), Ok(0));
    assert_eq!(one.group_size("g"), Err(Code::NO_GROUP));
}

#[test]
fn end_is_noticed_as_a_message() {
    let network = Network::default();
    let mut one = task(&network, 1);
    let two = task(&network, 2);
    let number = two.task().number();
    assert_eq!(one.notify(1, 99, &[number]), Ok(0));
    drop(two);
    assert_eq!(receive(&mut one, -1, 99), Some(number));
    assert_eq!(one.notify(1, 99, &[0]), Err(Code::BAD_PARAMETER));
    assert_eq!(one.notify(77, 99, &[number]), Err(Code::BAD_PARAMETER));
}

/// A message of some bytes, without waiting for it.
fn send_bytes(from: &mut Task, to: i32, tag: i32) -> Result<(), Code> {
    from.send_bytes(to, tag, &[0; 1000])
}

#[test]
fn full_inbox_takes_no_more_until_some_are_received() {
    let network = Network::default();
    let (mut one, mut two) = (task(&network, 1), task(&network, 2));
    let own = two.task().number();
    for _ in 0..2 * KEPT_BYTES_MAX / 1000 {
        send_bytes(&mut one, own, 7).expect("sent");
    }
    send_bytes(&mut one, own, 8).expect("sent");
    let full = |task: &mut Task| loop {
        match task.pull(AT_ONCE) {
            Ok(Some(_)) => {}
            Ok(None) => return false,
            Err(code) => {
                assert_eq!(code, Code::OUT_OF_RESOURCES);
                return true;
            }
        }
    };
    assert!(full(&mut two));
    assert_eq!(two.receive(&two.wanted(-1, 8)), None);
    // Each that is received makes place for another.
    while full(&mut two) {
        assert!(two.receive(&two.wanted(-1, 7)).is_some());
    }
    assert!(two.receive(&two.wanted(-1, 8)).is_some());
    send_bytes(&mut one, own, 9).expect("sent");
    two.drop_messages();
    assert!(!full(&mut two));
    assert_eq!(two.receive(&two.wanted(-1, 7)), None);
    assert!(two.receive(&two.wanted(-1, 9)).is_some());
}

#[test]
fn messages_to_itself_have_a_limit() {
    let network = Network::default();
    let mut one = task(&network, 1);
    let own = one.task().number();
    let most = KEPT_BYTES_MAX / 1000;
    let refused = (0..=most).find_map(|_| send_bytes(&mut one, own, 7).err());
    assert_eq!(refused, Some(Code::OUT_OF_RESOURCES));
    assert!(matches!(one.pull(AT_ONCE), Ok(Some(Event::Message))));
    send_bytes(&mut one, own, 7).expect("there is place again");
}
