//! Scenario `media` as a person runs it: few packets by every method, and what is left behind
//! (nothing), however it ends.
//!
//! Needs the right to make network namespaces; says so and does nothing where it is missing, except
//! in continuous integration (`CI`), where it has to be there.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use hythe_testing::eventually_some;
use serde_json::Value;

const PROGRAM: &str = env!("CARGO_BIN_EXE_hythe-bench");
const NOBODY: u32 = 65_534;

/// Its temporary files go into a directory of the test's own, which shall be empty afterwards.
fn bench(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(PROGRAM);
    command.arg("media").args(arguments).env("TMPDIR", folder);
    command
}

fn run(command: &mut Command) -> (Output, String) {
    let output = command.output().expect("it runs");
    let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
    (output, complaint)
}

/// Whether the test has to be left out, loudly.
fn is_left_out() -> bool {
    let tried = Command::new("unshare")
        .args(["--net", "--mount", "ip", "link", "show"])
        .output();
    let why = match tried {
        Ok(output) if output.status.success() => return false,
        Ok(output) => String::from_utf8_lossy(&output.stderr).trim().to_owned(),
        Err(error) => format!("unshare: {error}"),
    };
    assert!(std::env::var_os("CI").is_none(), "no namespaces: {why}");
    eprintln!("SKIPPED: network namespaces cannot be made here: {why}");
    true
}

fn assert_empty(folder: &Path) {
    let left: Vec<_> = fs::read_dir(folder).expect("the folder").collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn every_method_delivers_every_packet_as_it_was() {
    if is_left_out() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let arguments = [
        "--json",
        "--quick",
        "--packets",
        "1500",
        "--destinations",
        "3",
        "--only",
        "first_send,prepared,headers",
    ];
    let (output, complaint) = run(&mut bench(folder.path(), &arguments));
    assert!(output.status.success(), "{complaint}");
    let document: Value = serde_json::from_slice(&output.stdout).expect("one document");
    assert_eq!(document["schema"], "hythe.result/1");
    assert_eq!(document["bench"], "media");
    assert_eq!(document["conditions"]["invalid"], Value::Null);
    let mut seen = BTreeSet::new();
    for row in document["results"].as_array().expect("rows") {
        let case = row["case"].as_str().expect("a name");
        seen.insert(case.to_owned());
        assert_eq!((&row["packets"], &row["repeat"]), (&1500.into(), &1.into()));
        assert!(row["seconds"].as_f64() > Some(0.0), "{row}");
        assert!(row["cpu_ns_per_packet"].as_f64() > Some(0.0), "{row}");
        let is_sent = row["metric"] == "first_send_to_last_check";
        let expected = row["destinations"].as_u64().map(|count| count * 1500);
        let delivered = row["delivered"].as_u64();
        assert_eq!(delivered, expected.filter(|_| is_sent), "{row}");
    }
    for method in ["sendto", "sendmmsg", "gso", "sendfile-gso", "hythe"] {
        for mode in ["first_send", "prepared", "layout"] {
            assert!(seen.contains(&format!("{method}/{mode}")), "{seen:?}");
        }
    }
    assert!(seen.contains("hythe/headers"), "{seen:?}");
    let ratios = document["ratios"].as_array().expect("ratios");
    let is_ours = |ratio: &&Value| ratio["name"] == "sendto/first_send by hythe/prepared: cpu";
    assert_eq!(ratios.iter().filter(is_ours).count(), 2, "to one, to three");
    assert_empty(folder.path());
    assert!(!Path::new("/dev/shm/hythe-bench-media").exists());
}

/// On a machine that has other work calls are late and repair may come late: what is asserted is
/// that everything was measured, counted and checked.
#[test]
fn calls_and_a_way_that_loses_are_measured() {
    if is_left_out() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let arguments = [
        "--json",
        "--quick",
        "--calls",
        "100",
        "--only",
        "calls,lossy",
    ];
    let (output, complaint) = run(&mut bench(folder.path(), &arguments));
    let document: Value = serde_json::from_slice(&output.stdout).expect("one document");
    // The kernel drops packets that a busy machine is too late for; the run then says so.
    let is_whole = match document["conditions"]["invalid"].as_str() {
        Some(why) => !why.contains("of 5000 packets"),
        None => true,
    };
    assert_eq!(output.status.success(), is_whole, "{complaint}");
    let rows = document["results"].as_array().expect("rows");
    let of = |case: &str| -> Vec<&Value> {
        let rows = rows.iter().filter(|row| row["case"] == case);
        rows.collect()
    };
    for case in ["sendto/calls", "hythe/calls"] {
        let [sent, received] = of(case)[..] else {
            panic!("{case}: {rows:?}");
        };
        assert_eq!(sent["metric"], "spacing_error_sent");
        assert_eq!(received["metric"], "spacing_error_received");
        // A second of a hundred calls; where the machine stood still, the product leaves out what
        // is too late.
        let packets = sent["packets"].as_u64().expect("a count");
        assert!(packets <= 5000 && packets > 100, "{sent}");
        let delivered = sent["delivered"].as_u64().expect("a count");
        assert!(
            delivered == packets || !is_whole && delivered < packets,
            "{sent}"
        );
        for row in [sent, received] {
            assert!(row["count"].as_u64() > Some(0) && row["count"].as_u64() < Some(packets));
            assert!(row["p50"].as_u64() <= row["p99"].as_u64(), "{row}");
            assert!(row["cpu_share"].as_f64() > Some(0.0), "{row}");
            assert!(row["histogram"].is_string(), "{row}");
        }
    }
    for (case, repairs) in [
        ("unrepaired", false),
        ("resend", true),
        ("parity-columns", true),
        ("parity-matrix", true),
    ] {
        let case = format!("hythe/lossy-{case}");
        let [row] = of(&case)[..] else {
            panic!("{case}: {rows:?}");
        };
        assert_eq!(
            (&row["packets"], &row["metric"]),
            (&500.into(), &"missing".into())
        );
        assert!(row["lost"].as_u64() > Some(0), "{row}");
        assert_eq!(row["repaired"].as_u64() > Some(0), repairs, "{row}");
        assert_eq!(row["value"], row["missing"]);
        assert!(
            row["predicted"].is_number() && row["expected"].is_array(),
            "{row}"
        );
    }
    let ratios = document["ratios"].as_array().expect("ratios");
    assert_eq!(ratios[0]["name"], "sendto/calls by hythe/calls: cpu");
    assert_empty(folder.path());
}

/// Programs that are missing here are named; what is asserted of the others is that all of it
/// arrived and was measured.
#[test]
fn streams_as_they_play_are_measured_beside_other_programs() {
    if is_left_out() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let arguments = [
        "--json",
        "--quick",
        "--only",
        "plays",
        "--play-seconds",
        "1",
        "--play-destinations",
        "1,20",
    ];
    let (output, complaint) = run(&mut bench(folder.path(), &arguments));
    if output.status.code() == Some(2) {
        assert!(complaint.contains("nothing is left"), "{complaint}");
        return eprintln!("SKIPPED: no program that plays is installed");
    }
    assert!(output.status.success(), "{complaint}");
    let document: Value = serde_json::from_slice(&output.stdout).expect("one document");
    assert_eq!(document["conditions"]["invalid"], Value::Null);
    let rows = document["results"].as_array().expect("rows");
    let skipped = document["conditions"]["skipped"]
        .as_array()
        .expect("a list");
    assert_eq!(rows.len() + skipped.len(), 8, "{rows:?} {skipped:?}");
    for row in rows {
        let case = row["case"].as_str().expect("a name");
        assert!(case.ends_with("/plays"), "{case}");
        assert_eq!(
            (&row["metric"], &row["unit"]),
            (&"lateness".into(), &"ns".into())
        );
        let destinations = row["destinations"].as_u64().expect("a number");
        // A second at 5 Mbit/s in packets of 1,316 bytes; ffmpeg leaves stuffing out.
        assert!(
            row["delivered"].as_u64() > Some(300 * destinations),
            "{row}"
        );
        assert_eq!(row["delivered"], row["count"], "once");
        assert!(row["cpu_ns_per_packet"].as_f64() > Some(0.0), "{row}");
        assert!(row["p50"].as_u64() <= row["p99"].as_u64(), "{row}");
        assert!(row["histogram"].is_string(), "{row}");
        let command = row["conditions"]["command"].as_str().expect("a line");
        assert!(command.ends_with("FILE --json DESTINATIONS") || case != "hythe/plays");
    }
    assert_empty(folder.path());
}

#[test]
fn killed_bench_ends_processes_and_networks() {
    if is_left_out() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    for signal in [rustix::process::Signal::KILL, rustix::process::Signal::INT] {
        let mut bench = bench(folder.path(), &["--packets", "1000", "--repeat", "1000"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("it runs");
        let networks = eventually_some("both networks", || networks_of(&bench));
        let pid = rustix::process::Pid::from_child(&bench);
        rustix::process::kill_process(pid, signal).expect("signalled");
        let status = bench.wait().expect("waited");
        assert!(!status.success(), "{status}");
        eventually_some("what the bench does", || {
            networks
                .iter()
                .all(|network| !is_in_use(network))
                .then_some(())
        });
        assert_empty(folder.path());
    }
}

/// The networks of both ends, once they are there and linked: not ours.
fn networks_of(bench: &Child) -> Option<[PathBuf; 2]> {
    let pid = bench.id();
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).ok()?;
    let own = fs::read_link("/proc/self/ns/net").ok()?;
    let is_linked = |child: &str| {
        let interfaces = fs::read_to_string(format!("/proc/{child}/net/dev"));
        interfaces.is_ok_and(|interfaces| interfaces.contains("hythe0"))
    };
    let children = children
        .split_ascii_whitespace()
        .filter(|child| is_linked(child));
    let networks = children.filter_map(|child| fs::read_link(format!("/proc/{child}/ns/net")).ok());
    let networks: Vec<PathBuf> = networks.filter(|network| *network != own).collect();
    networks.try_into().ok()
}

/// Is a process in it?
fn is_in_use(network: &Path) -> bool {
    let processes = fs::read_dir("/proc").expect("processes").flatten();
    let mut networks =
        processes.filter_map(|process| fs::read_link(process.path().join("ns/net")).ok());
    networks.any(|other| other == network)
}

#[test]
fn bench_reports_missing_right_to_make_networks() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut command = bench(folder.path(), &["--quick"]);
    if rustix::process::geteuid().is_root() {
        command.uid(NOBODY).gid(NOBODY);
    }
    let Ok(output) = command.output() else {
        eprintln!("SKIPPED: another user cannot reach {PROGRAM}");
        return;
    };
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{complaint}");
    assert!(complaint.contains("as root"), "{complaint}");
}

#[test]
fn impossible_scales_are_refused() {
    for wrong in [
        ["--packets", "65536"],
        ["--packets", "0"],
        ["--packet-bytes", "1473"],
        ["--destinations", "65"],
        ["--repeat", "0"],
        ["--calls", "0"],
        ["--call-seconds", "61"],
        ["--play-seconds", "0"],
        ["--play-destinations", "1001"],
        ["--lossy-packets", "60001"],
    ] {
        let folder = tempfile::tempdir().expect("a folder");
        let (output, _) = run(&mut bench(folder.path(), &wrong));
        assert_eq!(output.status.code(), Some(2), "{wrong:?}");
    }
}
