//! `hythe media send --calls`: a prompt to many telephones, and the priority of the thread that
//! sends.

use crate::support;

use std::collections::BTreeMap;
use std::net::UdpSocket;
use std::process::Command;

use crate::support::streams::{self, document};
use crate::support::{Ended, Root, Running};

const CALLS: u16 = 20;
/// 20 ms of silence, three times.
const PROMPT: [u8; 480] = [0xff; 480];
const HEADER_BYTES: usize = 12;

/// The command, for a second, and the sockets of the telephones.
fn calls(root: &Root, options: &[&str]) -> (Command, Vec<UdpSocket>) {
    let prompt = root.path().join("prompt.ulaw");
    std::fs::write(&prompt, PROMPT).expect("written");
    let first = streams::ports(CALLS);
    let telephones = (0..CALLS).map(|call| {
        let socket = UdpSocket::bind(("127.0.0.1", first + 2 * call)).expect("free");
        socket.set_nonblocking(true).expect("a socket");
        socket
    });
    let telephones = telephones.collect();
    let (prompt, to) = (
        prompt.to_str().expect("ours"),
        format!("rtp://127.0.0.1:{first}"),
    );
    let count = CALLS.to_string();
    let what = ["media", "send", prompt, "--raw", "pcmu:8000:1", "--to", &to];
    let how = ["--calls", &count, "--for", "1", "--json"];
    (
        root.command(&[&what, &how[..], options].concat()),
        telephones,
    )
}

/// Without the right to give itself a real-time priority, whoever runs it.
fn without_privilege(command: &Command) -> Command {
    let mut unprivileged = Command::new("setpriv");
    unprivileged.args([
        "--bounding-set",
        "-sys_nice",
        "--inh-caps",
        "-sys_nice",
        "--",
    ]);
    unprivileged.arg("prlimit").arg("--rtprio=0").arg("--");
    unprivileged
        .arg(command.get_program())
        .args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => unprivileged.env(name, value),
            None => unprivileged.env_remove(name),
        };
    }
    unprivileged
        .stdin(std::process::Stdio::null())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped());
    unprivileged
}

/// Of the thread that runs the program: the policy, as sched(7) numbers it, and the real-time
/// priority (proc(5), fields 41 and 40).
fn scheduled(running: &Running) -> Option<(u32, u32)> {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", running.child.id())).ok()?;
    let behind_name = stat.rsplit_once(')')?.1;
    let mut fields = behind_name.split_whitespace().skip(40 - 3);
    let priority = fields.next()?.parse().ok()?;
    Some((fields.next()?.parse().ok()?, priority))
}

/// Each telephone heard the same, without a gap, and as many packets as the document says.
fn heard_everything(telephones: &[UdpSocket], ended: &Ended) {
    let said = document(ended);
    assert_eq!(
        (&said["calls"], &said["unsent"]),
        (&CALLS.into(), &0.into())
    );
    let mut sources = BTreeMap::new();
    let mut packets = 0;
    for telephone in telephones {
        let mut packet = [0; 2048];
        let mut before = None;
        while let Ok(bytes) = telephone.recv(&mut packet) {
            assert_eq!(packet[HEADER_BYTES..bytes], PROMPT[..160]);
            let number = u16::from_be_bytes([packet[2], packet[3]]);
            assert!(before.is_none_or(|before: u16| before.wrapping_add(1) == number));
            before = Some(number);
            *sources.entry(packet[8..12].to_vec()).or_insert(0) += 1;
            packets += 1;
        }
    }
    assert_eq!(said["packets"], packets);
    assert_eq!(sources.len(), usize::from(CALLS), "a source for each call");
}

#[test]
fn real_time_thread_sends_prompt_to_every_telephone() {
    let Some(root) = Root::on_shared_memory("telephone calls") else {
        return;
    };
    let (command, telephones) = calls(&root, &["--priority", "3"]);
    let running = Running::new(command);
    const FIFO: u32 = 1;
    support::eventually("it is scheduled as asked for, or says why not", || {
        scheduled(&running) == Some((FIFO, 3)) || running.said().contains("--priority 3")
    });
    let ended = running.end();
    heard_everything(&telephones, &ended);
    let is_refused = ended.errors.contains("--priority 3");
    assert_eq!(document(&ended)["priority"], if is_refused { 0 } else { 3 });
}

#[test]
fn prompt_is_what_can_be_read_of_its_list() {
    let Some(root) = Root::on_shared_memory("a list of prompts") else {
        return;
    };
    let (command, telephones) = calls(&root, &[]);
    let list = root.path().join("list.m3u");
    std::fs::write(&list, "gone.ulaw\nprompt.ulaw\nlost.ulaw\n").expect("written");
    let arguments = command.get_args().map(|text| text.to_str().expect("ours"));
    let mut arguments: Vec<&str> = arguments.collect();
    arguments[2] = list.to_str().expect("ours");
    let ended = root.run(&arguments);
    assert_eq!(ended.code, Some(1), "{}", ended.errors);
    for part in [
        "gone.ulaw: No such file",
        "lost.ulaw: No such file",
        "2 parts passed over",
    ] {
        assert!(ended.errors.contains(part), "{part}: {}", ended.errors);
    }
    let said: serde_json::Value = serde_json::from_slice(&ended.output).expect("one document");
    assert_eq!(
        (&said["skipped"], &said["calls"]),
        (&2.into(), &CALLS.into())
    );
    assert_eq!(telephones.len(), usize::from(CALLS));
}

#[test]
fn who_may_not_have_a_priority_sends_without_and_is_told() {
    let Some(root) = Root::on_shared_memory("telephone calls without privilege") else {
        return;
    };
    if !rustix::process::geteuid().is_root() {
        eprintln!("SKIPPED (not root, who has a privilege to drop): --priority refused");
        return;
    }
    let (command, telephones) = calls(&root, &["--priority", "3"]);
    let ended = Running::new(without_privilege(&command)).end();
    heard_everything(&telephones, &ended);
    assert_eq!(document(&ended)["priority"], 0);
    for word in ["--priority 3", "an ordinary thread", "ulimit -r"] {
        assert!(ended.errors.contains(word), "{}", ended.errors);
    }
}

#[test]
fn priority_that_does_not_exist_is_refused() {
    let Some(root) = Root::on_shared_memory("priorities") else {
        return;
    };
    let (command, _) = calls(&root, &["--priority", "100"]);
    Running::new(command)
        .end()
        .failed(2, &["--priority", "100", "0..=99"]);
}
